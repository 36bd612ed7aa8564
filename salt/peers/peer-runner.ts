/** Runs runners that minions request [WIRE 9.10]. */

import type { Logger } from 'pino';
import type { MinionSubject } from '#acl';
import {
  AuthorizationError,
  actorOf,
  type Contributions,
  callOf,
  type Functions,
  type Jobs,
  type MasterContext,
  MasterError,
  type ProvenRequest,
  type Users,
} from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { minionWork } from '#runtime';
import { requesterJobs } from '../requester-jobs.ts';
import { bareCalls, functionsOf, readCalls, type WordReader } from './peer-call.ts';
import { isInert, type PeerRequest } from './peer-publisher.ts';

export interface PeerRunnerOptions {
  readonly runners: Functions['runners'];
  /** Runners that extensions offer to minions. */
  readonly minionRunners: Contributions['minionRunners'];
  readonly jobs: Pick<Jobs, 'api' | 'cache' | 'targets'>;
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly reader: WordReader;
  readonly log: Logger;
}

/** Request of a minion for a runner. */
type PeerRunRequest = PeerRequest & Pick<ProvenRequest, 'version'>;

/** Runs runners that minions request. Only runners that `peer_run` allows are permitted. */
export class PeerRunner {
  readonly #options: PeerRunnerOptions;

  constructor(options: PeerRunnerOptions) {
    this.#options = options;
  }

  /**
   * Runs a runner.
   * @param mark - id of the request. If a request with this id was already processed, the runner
   * does not run again. Runners of extensions ignore the id, so they run again
   * @returns the result of the runner; an empty map if the request is rejected, or if the runner
   * does not run again
   */
  async run(
    { minionId, load, isKeyCurrent, version: protocol }: PeerRunRequest,
    mark: string | undefined,
  ): Promise<WireValue> {
    const { gate, counters, log, jobs, runners, minionRunners, reader } = this.#options;
    const subject = { kind: 'minion', id: minionId } as const;
    if (!gate.mayPermit(subject, 'runner')) return this.#refuse('peer-off');
    const funs = functionsOf(load) ?? [];
    const isWorthReading = gate.mayPermit(subject, 'runner', funs);
    const calls = isWorthReading
      ? await readCalls(funs, load, { reader, minionId })
      : bareCalls(funs);
    const [call, ...more] = calls ?? [];
    if (call === undefined || more.length > 0) return this.#refuse('peer-malformed');
    const resource = { call: callOf(call) };
    const decision = gate.decide({ subject, action: 'runner', resource });
    if (decision.effect === 'deny') {
      counters.count(`runner-${decision.rule}`);
      log.info(
        { minion: minionId, rule: decision.rule },
        'rejected the request of a minion to call a runner',
      );
      return {};
    }
    if (!isInert(call)) return this.#refuse('peer-interpreted');
    // The key may have been deleted while the arguments were parsed.
    if (!isKeyCurrent()) return this.#refuse('not-accepted');
    const own = minionRunners.get(call.fun);
    if (own !== undefined) {
      const requirePermission = (): void => {
        const question = { subject, action: 'runner', resource, isRepeated: true } as const;
        const { effect } = gate.decide(question);
        if (effect === 'allow' && isKeyCurrent()) return;
        throw new AuthorizationError('the minion may no longer call this runner');
      };
      const { arg, kwarg } = call;
      return own({ minion: minionId, protocol, arg, kwarg, requirePermission });
    }
    if (!(await jobs.cache.addMark(minionId, mark))) return {};
    if (!isKeyCurrent()) return this.#refuse('not-accepted');
    log.info(
      { minion: minionId, fun: call.fun, rule: decision.reason },
      'starting a runner at the request of a minion',
    );
    try {
      const by = { who: actorOf({ kind: 'minion', id: minionId }), rule: decision.rule };
      const origin = { user: minionId, by, requesterJobs: this.#jobsOf(subject, isKeyCurrent) };
      return (await runners.run({ ...call, ...origin })).return;
    } catch (error) {
      if (error instanceof MasterError) return error.message;
      throw error;
    }
  }

  /**
   * Returns the jobs interface with the rights that `peer` gives the minion. It rejects jobs after
   * the key of the minion was deleted.
   */
  #jobsOf(subject: MinionSubject, isKeyCurrent: () => boolean): ReturnType<typeof requesterJobs> {
    const { gate, jobs } = this.#options;
    const action = 'publish';
    return requesterJobs(actorOf(subject), {
      ...{ jobs: jobs.api, targets: jobs.targets, work: minionWork },
      reach: (calls) => gate.reach({ subject, action, calls }),
      decide: (calls, minions) => {
        if (isKeyCurrent()) return gate.decide({ subject, action, resource: { calls, minions } });
        throw new AuthorizationError('the key of the minion is no longer accepted');
      },
    });
  }

  #refuse(reason: string): WireMap {
    this.#options.counters.count(reason);
    return {};
  }
}

import type { Logger } from 'pino';
import { decide, hasRules, type Policy } from '../../acl/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { FunctionCaller } from '../runners/caller.ts';
import { readCalls, toCall } from './peer-load.ts';

/** What {@link PeerRunner} needs. */
export interface PeerRunnerOptions {
  readonly runners: FunctionCaller;
  readonly cache: JobCache;
  readonly policy: () => Policy;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/** Runners that minions ask for. Nothing is permitted unless `peer_run` says so. */
export class PeerRunner {
  readonly #options: PeerRunnerOptions;

  constructor(options: PeerRunnerOptions) {
    this.#options = options;
  }

  /**
   * @param mark of the request: the same one again runs nothing
   * @returns what the runner gave; an empty map if it is refused
   */
  async run(minionId: string, load: WireMap, mark: string | undefined): Promise<WireValue> {
    const { policy, counters, log, cache, runners } = this.#options;
    const subject = { kind: 'minion', id: minionId } as const;
    if (!hasRules(subject, 'runner', policy())) return this.#refuse('peer-off');
    const [call, ...more] = readCalls(load) ?? [];
    if (call === undefined || more.length > 0) return this.#refuse('peer-malformed');
    const resource = { call: toCall(call) };
    const decision = decide({ subject, action: 'runner', resource }, policy());
    if (decision.effect === 'deny') {
      counters.count(`runner-${decision.rule}`);
      log.info({ minion: minionId, rule: decision.rule }, 'runner of a minion refused');
      return {};
    }
    if (!(await cache.addMark(minionId, mark))) return {};
    log.info({ minion: minionId, fun: call.fun, rule: decision.reason }, 'runner for a minion');
    try {
      return (await runners.run({ ...call, user: minionId })).return;
    } catch (error) {
      if (error instanceof MasterError) return error.message;
      throw error;
    }
  }

  #refuse(reason: string): WireMap {
    this.#options.counters.count(reason);
    return {};
  }
}

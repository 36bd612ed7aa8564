import type { Logger } from 'pino';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { minionActor } from '../audit/requester.ts';
import { MasterError } from '../errors.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { FunctionCaller } from '../runners/caller.ts';
import { bareCalls, functionsOf, readCalls, toCall, type WordReader } from './peer-load.ts';

/** What {@link PeerRunner} needs. */
export interface PeerRunnerOptions {
  readonly runners: FunctionCaller;
  readonly cache: JobCache;
  readonly gate: PolicyGate;
  readonly counters: RequestCounters;
  readonly reader: WordReader;
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
    const { gate, counters, log, cache, runners, reader } = this.#options;
    const subject = { kind: 'minion', id: minionId } as const;
    if (!gate.mayPermit(subject, 'runner')) return this.#refuse('peer-off');
    const funs = functionsOf(load) ?? [];
    const isWorthReading = gate.mayPermit(subject, 'runner', funs);
    const calls = isWorthReading ? await readCalls(funs, load, reader) : bareCalls(funs);
    const [call, ...more] = calls ?? [];
    if (call === undefined || more.length > 0) return this.#refuse('peer-malformed');
    const resource = { call: toCall(call) };
    const decision = gate.decide({ subject, action: 'runner', resource });
    if (decision.effect === 'deny') {
      counters.count(`runner-${decision.rule}`);
      log.info({ minion: minionId, rule: decision.rule }, 'runner of a minion refused');
      return {};
    }
    if (!(await cache.addMark(minionId, mark))) return {};
    log.info({ minion: minionId, fun: call.fun, rule: decision.reason }, 'runner for a minion');
    try {
      const by = { who: minionActor(minionId), rule: decision.rule };
      return (await runners.run({ ...call, user: minionId, by })).return;
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

import type { Logger } from 'pino';
import type { Call, Decision, MinionSubject } from '../../acl/index.ts';
import { isJid, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { minionActor } from '../audit/requester.ts';
import { MasterError } from '../errors.ts';
import { joinKeywords } from '../jobs/arguments.ts';
import type { JobDispatcher, PublishRequest } from '../jobs/dispatcher.ts';
import { type JobReturn, returnerOf } from '../jobs/job.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import { type RunParts, runJob } from '../jobs/run.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { TargetRequest } from '../targeting/parse.ts';
import type { TargetReach, TargetResolver } from '../targeting/resolve.ts';
import {
  bareCalls,
  functionsOf,
  type PeerCall,
  readCalls,
  readTarget,
  toCall,
  type WordReader,
} from './peer-load.ts';

/** What {@link PeerPublisher} needs. */
export interface PeerPublisherOptions extends RunParts {
  readonly dispatcher: JobDispatcher;
  readonly cache: JobCache;
  readonly targets: Pick<TargetResolver, 'resolveWithin'>;
  readonly gate: PolicyGate;
  readonly counters: RequestCounters;
  readonly reader: WordReader;
  readonly log: Logger;
}

/** A job that may be published. */
interface Permitted {
  readonly calls: readonly PeerCall[];
  readonly minions: readonly string[];
  readonly decision: Decision;
}

/** Which calls a minion asks for. */
interface PeerQuestion {
  readonly subject: MinionSubject;
  readonly action: 'publish';
  readonly calls: readonly Call[];
}

/** Longest time that a minion may wait for a job in one request, seconds. */
const maxWaitSeconds = 3600;

/**
 * Jobs that minions ask for [WIRE 9.10; THREATS M-06]. Nothing is permitted unless `peer` says so.
 * Whom the target means of the minions that rules name for it is decided here, by what is known for
 * certain, and the job goes to these by name: what was judged is what is published.
 */
export class PeerPublisher {
  readonly #options: PeerPublisherOptions;

  constructor(options: PeerPublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes, and waits for nobody.
   * @param mark of the request: the same one again publishes nothing
   * @returns `jid` and `minions`; nothing if it is refused, or means nobody
   */
  async publish(minionId: string, load: WireMap, mark: string | undefined): Promise<WireMap> {
    const request = await this.#toRequest(minionId, load, mark);
    if (request === undefined) return {};
    const { record } = await this.#options.dispatcher.publish(request);
    return { jid: record.jid, minions: [...record.minions] };
  }

  /** Publishes, and gives what comes back; with `form: full` all that is known of it. */
  async publishAndWait(
    minionId: string,
    load: WireMap,
    mark: string | undefined,
  ): Promise<WireMap> {
    const timeout = secondsOf(load.timeout ?? load.tmo);
    if (timeout === undefined) return {};
    const request = await this.#toRequest(minionId, load, mark);
    if (request === undefined) return {};
    const isFull = load.form === 'full';
    const reply: WireMap = Object.create(null);
    for await (const update of runJob(this.#options, { ...request, timeout })) {
      if (isFull && update.type === 'published') reply.__jid__ = update.jid;
      if (update.type !== 'return') continue;
      reply[returnerOf(update)] = isFull ? fullReturn(update.jid, update) : update.return;
    }
    return reply;
  }

  /** What has come back for a job, if this minion asked for it. */
  async returns(minionId: string, jid: WireValue | undefined): Promise<WireMap> {
    const record = isJid(jid) ? await this.#options.cache.record(jid) : undefined;
    if (record?.requestedBy !== minionId) return {};
    const reply: WireMap = Object.create(null);
    for await (const result of this.#options.cache.returns(record.jid)) {
      const out: WireMap = result.out === undefined ? {} : { out: result.out };
      reply[returnerOf(result)] = { ret: result.return, ...out };
    }
    return reply;
  }

  async #toRequest(
    minionId: string,
    load: WireMap,
    mark: string | undefined,
  ): Promise<PublishRequest | undefined> {
    const permitted = await this.#judge(minionId, load);
    if (permitted === undefined || permitted.minions.length === 0) return undefined;
    // In the store before the job leaves, so that a crash between them loses the job at worst.
    if (!(await this.#options.cache.addMark(minionId, mark))) return undefined;
    const { calls, minions, decision } = permitted;
    const fun = calls.map((call) => call.fun);
    this.#options.log.info(
      { minion: minionId, fun, tgt: minions.slice(0, 10), rule: decision.reason },
      'job published for a minion',
    );
    const by = { who: minionActor(minionId), rule: decision.rule };
    const target = { tgt: minions, tgtType: 'list', user: minionId, requestedBy: minionId, by };
    const [first, ...more] = calls;
    if (first === undefined || more.length > 0) {
      return { ...target, fun, arg: calls.map(joinKeywords) };
    }
    return { ...target, ...first };
  }

  async #judge(minionId: string, load: WireMap): Promise<Permitted | undefined> {
    const { gate, reader } = this.#options;
    // The common case, before anything that the minion wrote is looked at.
    const subject = { kind: 'minion', id: minionId } as const;
    // protection: default-allow-2
    if (!gate.mayPermit(subject, 'publish')) return this.#refuse('peer-off');
    const funs = functionsOf(load);
    if (funs === undefined) return this.#refuse('peer-malformed');
    // protection: function-first
    const isWorthReading = gate.mayPermit(subject, 'publish', funs);
    const calls = isWorthReading ? await readCalls(funs, load, reader) : bareCalls(funs);
    const target = readTarget(load);
    if (calls === undefined || target === undefined) return this.#refuse('peer-malformed');
    const asked = { subject, action: 'publish', calls: calls.map(toCall) } as const;
    const learning = gate.reachToLearn(asked);
    const whole = learning && this.#permit(asked, calls, target, learning);
    // protection: default-allow-3
    return whole ?? this.#permit(asked, calls, target, gate.reach(asked));
  }

  #permit(
    { subject, action, calls: judged }: PeerQuestion,
    calls: readonly PeerCall[],
    target: TargetRequest,
    reach: TargetReach,
  ): Permitted | undefined {
    const { gate, counters, log } = this.#options;
    const minions = this.#resolve(target, reach);
    if (minions === undefined) return this.#refuse('peer-target');
    const decision = gate.decide({ subject, action, resource: { calls: judged, minions } });
    if (decision.effect === 'allow') return { calls, minions, decision };
    counters.count(`peer-${decision.rule}`);
    log.info({ minion: subject.id, rule: decision.rule }, 'job of a minion refused');
    return undefined;
  }

  #refuse(reason: string): undefined {
    this.#options.counters.count(reason);
    return undefined;
  }

  #resolve(target: TargetRequest, reach: TargetReach): readonly string[] | undefined {
    try {
      return this.#options.targets.resolveWithin(target, reach);
    } catch (error) {
      if (error instanceof MasterError) return undefined;
      throw error;
    }
  }
}

function secondsOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return 5;
  const seconds = Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, maxWaitSeconds) : undefined;
}

function fullReturn(jid: string, result: JobReturn): WireMap {
  const fun = typeof result.fun === 'string' ? result.fun : [...result.fun];
  const { minion: id, return: ret, retcode, success } = result;
  return { id, jid, fun, ret, retcode, success };
}

/** Runs jobs that minions request [WIRE 9.10]. */

import type { Logger } from 'pino';
import type { Call, Decision, MinionSubject } from '#acl';
import {
  type AddressedMinions,
  actorOf,
  type BoundFunction,
  callOf,
  type JobOrigin,
  type JobReturn,
  type Jobs,
  joinKeywords,
  type MasterContext,
  MasterError,
  minionOwner,
  type ProvenRequest,
  type PublishRequest,
  type RunDeps,
  requireInertArguments,
  returnerOf,
  runJob,
  type TargetRequest,
  type Users,
} from '#master';
import { isJid, numberOf, type WireMap, type WireValue } from '#minion-protocol';
import { FairSlots, LimitExceeded, minionWork, WorkBudget, WorkLimitExceeded } from '#runtime';
import { saltLimits } from '../limits.ts';
import {
  bareCalls,
  functionsOf,
  readCalls,
  readTarget,
  type TargetReach,
  type WordReader,
} from './peer-call.ts';
import { PeerReplies, type PeerReply } from './peer-reply.ts';

export interface PeerPublisherOptions extends RunDeps {
  readonly dispatcher: Jobs['dispatcher'];
  readonly cache: Jobs['cache'];
  readonly targets: Pick<Jobs['targets'], 'resolveWithin'>;
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly reader: WordReader;
  readonly log: Logger;
}

/** Request of a minion for a job or a runner. */
export type PeerRequest = Pick<ProvenRequest, 'isKeyCurrent' | 'load' | 'minionId'>;

/** A job that the rules permit. */
interface Permitted {
  readonly calls: readonly BoundFunction[];
  readonly addressed: AddressedMinions;
  readonly decision: Decision;
}

/** Query to the access rules: may a minion publish a job with the given calls? */
interface PeerQuestion {
  readonly subject: MinionSubject;
  readonly action: 'publish';
  readonly calls: readonly Call[];
}

/** Maximum time that a minion may wait for a job in one request, in seconds. */
const maxWaitSeconds = 3600;

/**
 * Publishes jobs that minions request [WIRE 9.10; THREATS M-06]. Only jobs that `peer` allows are
 * permitted. The master resolves the target itself, from the grains and pillar that it stores. It
 * considers only the minions that the rules name. The job is then published for the resulting list
 * of ids, so that only these minions receive it.
 */
export class PeerPublisher {
  readonly #options: PeerPublisherOptions;
  readonly #replies = new PeerReplies();
  readonly #slots = new FairSlots(saltLimits.peerTargets);

  constructor(options: PeerPublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes a job without waiting for returns.
   * @param mark - id of the request; if this request was already processed, nothing is published
   * @returns `jid` and `minions`; empty if the job is rejected or matches no minion
   */
  async publish(asked: PeerRequest, mark: string | undefined): Promise<WireMap> {
    const request = await this.#toRequest(asked, mark);
    if (request === undefined) return {};
    try {
      const { record } = await this.#options.dispatcher.publish(request);
      return { jid: record.jid, minions: [...record.minions] };
    } catch (error) {
      return this.#refusal(error);
    }
  }

  /**
   * Publishes a job, waits until it has ended, and returns the results by minion id. If the request
   * contains `form: full`, each result also has the jid, function and return code.
   */
  async publishAndWait(asked: PeerRequest, mark: string | undefined): Promise<WireMap> {
    const { minionId, load } = asked;
    const timeoutSeconds = secondsOf(load.timeout ?? load.tmo);
    if (timeoutSeconds === undefined) return {};
    const request = await this.#toRequest(asked, mark);
    if (request === undefined) return {};
    const isFull = load.form === 'full';
    const reply: WireMap = Object.create(null);
    const size = this.#replies.open(minionId);
    try {
      for await (const update of runJob(this.#options, { ...request, timeoutSeconds })) {
        if (isFull && update.type === 'published') reply.__jid__ = update.jid;
        if (update.type !== 'return') continue;
        const ret = size.fit(update.jid, update);
        reply[returnerOf(update)] = isFull ? fullReturn(update.jid, update, ret) : ret;
      }
    } catch (error) {
      return this.#refusal(error);
    } finally {
      this.#countLeftOut(size);
      size.close();
    }
    return reply;
  }

  /** Returns the reply to a request whose job exceeds a limit of the minion. */
  #refusal(error: unknown): WireMap {
    if (!(error instanceof LimitExceeded)) throw error;
    this.#options.counters.count('peer-bytes');
    return {};
  }

  /**
   * Returns the results of a job by minion id if this minion requested the job. Otherwise returns
   * an empty map. A result that does not fit into the reply is replaced by an error text.
   */
  async returns(minionId: string, jid: WireValue | undefined): Promise<WireMap> {
    const record = isJid(jid) ? await this.#options.cache.record(jid) : undefined;
    if (record?.requestedBy !== minionId) return {};
    const reply: WireMap = Object.create(null);
    const size = this.#replies.open(minionId);
    try {
      const budget = new WorkBudget(minionWork, minionOwner(minionId));
      for await (const result of this.#options.cache.returns(record.jid, budget)) {
        const out: WireMap = result.out === undefined ? {} : { out: result.out };
        reply[returnerOf(result)] = { ret: size.fit(record.jid, result), ...out };
      }
    } finally {
      this.#countLeftOut(size);
      size.close();
    }
    return reply;
  }

  #countLeftOut({ leftOut }: PeerReply): void {
    if (leftOut > 0) this.#options.counters.count('peer-reply-bytes');
  }

  async #toRequest(
    { minionId, load, isKeyCurrent }: PeerRequest,
    mark: string | undefined,
  ): Promise<(PublishRequest & JobOrigin) | undefined> {
    const permitted = await this.#judge(minionId, load);
    if (permitted === undefined || permitted.addressed.minions.length === 0) return undefined;
    // The job is stored before it is sent. A crash in between loses the job but never repeats it.
    if (!(await this.#options.cache.addMark(minionId, mark))) return undefined;
    // The key may have been deleted while the request waited.
    if (!isKeyCurrent()) return this.#refuse('not-accepted');
    const { calls, decision } = permitted;
    const { minions, ...leftOut } = permitted.addressed;
    const fun = calls.map((call) => call.fun);
    this.#options.log.info(
      { minion: minionId, fun, tgt: minions.slice(0, 10), rule: decision.reason, ...leftOut },
      'published a job at the request of a minion',
    );
    const by = { who: actorOf({ kind: 'minion', id: minionId }), rule: decision.rule };
    const caller = { user: minionId, requestedBy: minionId, by };
    const target = { tgt: minions, tgtType: 'list', leftOut, ...caller };
    const [first, ...more] = calls;
    if (first === undefined || more.length > 0) {
      return { ...target, fun, arg: calls.map(joinKeywords) };
    }
    return { ...target, ...first };
  }

  async #judge(minionId: string, load: WireMap): Promise<Permitted | undefined> {
    const { gate, reader } = this.#options;
    // Most refusals happen here, before the minion's input is parsed.
    const subject = { kind: 'minion', id: minionId } as const;
    if (!gate.mayPermit(subject, 'publish')) return this.#refuse('peer-off');
    const funs = functionsOf(load);
    if (funs === undefined) return this.#refuse('peer-malformed');
    const isWorthReading = gate.mayPermit(subject, 'publish', funs);
    const calls = isWorthReading
      ? await readCalls(funs, load, { reader, minionId })
      : bareCalls(funs);
    const target = readTarget(load);
    if (calls === undefined || target === undefined) return this.#refuse('peer-malformed');
    const asked = { subject, action: 'publish', calls: calls.map(callOf) } as const;
    const learning = gate.reachToLearn(asked);
    if (!calls.every(isInert)) return this.#refuse('peer-interpreted');
    const owner = minionOwner(minionId);
    const budget = new WorkBudget(minionWork, owner);
    const permit = (reach: TargetReach): Promise<Permitted | undefined> =>
      this.#permit(asked, calls, target, reach, budget);
    try {
      return await this.#slots.run(owner, async () => {
        const whole = learning && (await permit(learning));
        return whole ?? permit(gate.reach(asked));
      });
    } catch (error) {
      if (error instanceof LimitExceeded) return this.#refuse('peer-busy');
      throw error;
    }
  }

  async #permit(
    { subject, action, calls: judged }: PeerQuestion,
    calls: readonly BoundFunction[],
    target: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget,
  ): Promise<Permitted | undefined> {
    const { gate, counters, log } = this.#options;
    const addressed = await this.#resolve(target, reach, budget);
    if (typeof addressed === 'string') return this.#refuse(addressed);
    const { minions } = addressed;
    const decision = gate.decide({ subject, action, resource: { calls: judged, minions } });
    if (decision.effect === 'allow') return { calls, addressed, decision };
    counters.count(`peer-${decision.rule}`);
    const { rule, reason } = decision;
    log.info(
      { minion: subject.id, rule, reason },
      'rejected the request of a minion to publish a job',
    );
    return undefined;
  }

  #refuse(reason: string): undefined {
    this.#options.counters.count(reason);
    return undefined;
  }

  async #resolve(
    target: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget,
  ): Promise<AddressedMinions | 'peer-target' | 'peer-work-limit'> {
    try {
      return await this.#options.targets.resolveWithin(target, reach, budget);
    } catch (error) {
      if (error instanceof MasterError) return 'peer-target';
      if (error instanceof WorkLimitExceeded) return 'peer-work-limit';
      throw error;
    }
  }
}

/**
 * Whether minions use all arguments of a call as plain data. Salt interprets some texts in
 * arguments as calls or look-ups. If an argument contains such a text, the result is false.
 */
export function isInert(call: BoundFunction): boolean {
  try {
    requireInertArguments(call);
    return true;
  } catch (error) {
    if (error instanceof MasterError) return false;
    throw error;
  }
}

function secondsOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return 5;
  const seconds = numberOf(value) ?? Number.NaN;
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, maxWaitSeconds) : undefined;
}

function fullReturn(jid: string, result: JobReturn, ret: WireValue): WireMap {
  const fun = typeof result.fun === 'string' ? result.fun : [...result.fun];
  const { minion: id, retcode, success } = result;
  return { id, jid, fun, ret, retcode, success };
}

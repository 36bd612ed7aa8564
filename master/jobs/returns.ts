import { decide, type ReturnResource } from '#acl';
import type { ReturnLoad, WireMap } from '#minion-protocol';
import type { TokenBuckets } from '#runtime';
import type { JobReturn } from '../api/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { Job } from './job.ts';
import { stateErrorEvents } from './job-events.ts';
import type { JobRecord } from './job-row.ts';
import type { Jobs } from './jobs.ts';

/** Outcome of processing a return. */
export type ReturnOutcome =
  /** The return was stored, and emitted as an event. */
  | 'stored'
  /** The return was only emitted as an event, because the master does not store this job. */
  | 'told'
  /**
   * The master already has this return. It acknowledges the return again, and does nothing else.
   */
  | 'repeated'
  /**
   * The return was rejected by the policy, or because the minion exceeds a limit of self-started
   * jobs. `refused` is the name of the limit or of the deciding rule. The name is `default-deny` if
   * no rule applied.
   */
  | { readonly refused: string };

export interface ReturnProcessorOptions {
  readonly jobs: Pick<Jobs, 'cache' | 'resources'>;
  readonly context: Pick<MasterContext, 'meter' | 'nextJid' | 'now'>;
  /**
   * Returns whether a job was published to a former machine with the same minion id, whose key has
   * been deleted since. If the new machine returns for this job, the return is treated as a return
   * of an unknown job.
   */
  readonly isOfFormerOwner: (minionId: string, jid: string) => boolean;
  readonly bus: EventBus;
  /** Rate limit of each minion for the number of self-started jobs (`jid: req`) that it reports. */
  readonly selfMadeLimit: TokenBuckets;
  /** Limits the rate, in bytes, at which each minion may report jobs that it has started itself. */
  readonly selfMadeBytes: TokenBuckets;
  /** Returns whether the policy permits a minion to emit a signal. */
  readonly maySignal: (minionId: string, tag: string, data: WireMap) => boolean;
  /**
   * Functions of extensions that remove secrets from returns before they are stored and emitted.
   */
  readonly redactions?: readonly ReturnRedaction[];
}

/**
 * Function that removes secrets from a return. It gets the load of the return, which is the
 * decrypted request, and returns a load without the secrets.
 */
export type ReturnRedaction = (minionId: string, load: ReturnLoad) => ReturnLoad;

/**
 * Processes the returns of minions: checks whether a return is permitted, stores it, and only then
 * emits it as an event [WIRE 9.4].
 */
export class ReturnProcessor {
  readonly #options: ReturnProcessorOptions;

  constructor(options: ReturnProcessorOptions) {
    this.#options = options;
  }

  /**
   * Processes a return.
   * @param minionId - verified id of the sender. The `id` in the load is ignored
   * @param markOf - returns an identifier of the request. With it, the master recognizes a repeated
   * report of a job that the minion started itself. If it returns `undefined`, repetitions are not
   * recognized
   * @param bytes - size of the request
   */
  async take(
    minionId: string,
    given: ReturnLoad,
    markOf: () => string | undefined,
    bytes: number,
  ): Promise<ReturnOutcome> {
    const { isOfFormerOwner } = this.#options;
    const { cache } = this.#options.jobs;
    const jid = isSelfMade(given) ? 'req' : given.jid;
    const isUnknown = isSelfMade(given) || isOfFormerOwner(minionId, jid);
    const job = isUnknown ? undefined : await cache.find(jid);
    const decision = decide({
      subject: { kind: 'minion', id: minionId },
      action: 'return',
      resource: { jid, fun: given.fun ?? '', job, ...this.#managed(minionId, given) },
    });
    if (decision.effect === 'deny') return { refused: decision.rule };
    if (job === undefined) return this.#takeSelfMade(minionId, given, { mark: markOf(), bytes });
    if (job.hasAnswered(minionId, resourceOf(minionId, given))) return 'repeated';
    const load = this.#redact(minionId, given);
    const result = this.#toResult(minionId, load);
    if (job.isKept && !(await cache.addMinionReturn(job, result))) return 'repeated';
    this.#emit(load, job.jid, minionId);
    job.answer(result);
    if (job.isKept && result.resource === undefined) this.#measure(job);
    return job.isKept ? 'stored' : 'told';
  }

  #measure({ publishedAt, answered, minions }: Job): void {
    const { meter, now } = this.#options.context;
    meter.noteReturn((now() - publishedAt) / 1000, answered, minions.size);
  }

  /**
   * Removes secrets from a return. Examining large returns takes time, so only returns that are
   * permitted and within the limits are examined.
   */
  #redact(minionId: string, given: ReturnLoad): ReturnLoad {
    const { redactions = [] } = this.#options;
    return redactions.reduce((load, redact) => redact(minionId, load), given);
  }

  async #takeSelfMade(
    minionId: string,
    given: ReturnLoad,
    { mark, bytes }: { readonly mark: string | undefined; readonly bytes: number },
  ): Promise<ReturnOutcome> {
    const { jobs, context, selfMadeLimit, selfMadeBytes } = this.#options;
    const { cache } = jobs;
    if (await cache.hasMark(minionId, mark)) return 'repeated';
    if (!selfMadeLimit.tryTake(minionId)) return { refused: 'self-made-jobs-per-hour' };
    const isKept = given.nocache !== true && given.jid !== 'nocache';
    if (isKept) {
      if (!selfMadeBytes.has(minionId)) return { refused: 'self-made-bytes' };
      selfMadeBytes.take(minionId, bytes);
    }
    const load = this.#redact(minionId, given);
    const jid = context.nextJid();
    const record = this.#selfMadeRecord(jid, minionId, load);
    const isFirst = isKept
      ? await cache.addSelfMade(record, this.#toResult(minionId, load), mark)
      : await cache.addMark(minionId, mark);
    if (!isFirst) return 'repeated';
    const asJob = { jid, arg: load.fun_args ?? [], tgt: minionId, tgt_type: 'glob' };
    this.#emit({ ...load, ...asJob }, jid, minionId);
    return isKept ? 'stored' : 'told';
  }

  #emit(load: ReturnLoad, jid: string, minionId: string): void {
    const { bus, maySignal } = this.#options;
    const event: WireMap = { ...load, cmd: '_return', id: minionId };
    for (const { tag, oldTag, data } of stateErrorEvents(event, jid, minionId)) {
      if (oldTag !== undefined && maySignal(minionId, oldTag, data)) {
        bus.fire(oldTag, data, 'minion');
      }
      bus.fire(tag, data);
    }
    bus.fire(tags.jobReturn(jid, resourceOf(minionId, load) ?? minionId), event);
  }

  #managed(minionId: string, load: ReturnLoad): Pick<ReturnResource, 'managed'> {
    const id = resourceOf(minionId, load);
    if (id === undefined) return {};
    return { managed: { id, isOwn: this.#options.jobs.resources.has(minionId, id) } };
  }

  #toResult(minionId: string, load: ReturnLoad): JobReturn {
    const resource = resourceOf(minionId, load);
    return {
      minion: minionId,
      ...(resource === undefined ? {} : { resource }),
      fun: load.fun ?? '',
      return: load.return,
      retcode: load.retcode ?? 0,
      success: load.success ?? true,
      ...(typeof load.out === 'string' ? { out: load.out } : {}),
      receivedAt: this.#options.context.now(),
    };
  }

  #selfMadeRecord(jid: string, minionId: string, load: ReturnLoad): JobRecord {
    return {
      jid,
      fun: load.fun ?? '',
      arg: Array.isArray(load.fun_args) ? load.fun_args : [],
      tgt: minionId,
      tgtType: 'glob',
      user: load.user ?? minionId,
      minions: [minionId],
      missing: [],
      publishedAt: this.#options.context.now(),
      selfMade: true,
    };
  }
}

/**
 * Returns the id of the resource that a return belongs to. `undefined` if it belongs to the minion
 * itself.
 */
function resourceOf(minionId: string, { resource_id: id }: ReturnLoad): string | undefined {
  return typeof id === 'string' && id !== minionId ? id : undefined;
}

/**
 * Whether the minion itself started the job, for example by a schedule, `salt-call` or startup
 * states.
 */
function isSelfMade(load: ReturnLoad): boolean {
  return load.jid === 'req' || load.jid === 'nocache';
}

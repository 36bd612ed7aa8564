import { isDeepStrictEqual } from 'node:util';
import {
  isJid,
  type PublicationLoad,
  type PublishOutcome,
  type TargetExpression,
  type WireValue,
} from '#minion-protocol';
import { codeOf, KeyedMutex } from '#runtime';
import type { Operation } from '#store';
import { type JobOrigin, type JobReturn, MasterError, type PublishRequest } from '../api/index.ts';
import { type AuditEntry, type AuditTrail, auditOf, named } from '../audit/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import { Job } from './job.ts';
import { toArguments } from './job-arguments.ts';
import { type AddedJob, freshJid, type JobCache } from './job-cache.ts';
import { newJobEvent } from './job-events.ts';
import type { JobRecord } from './job-row.ts';
import type { Addressees, Publisher } from './publisher.ts';
import type { Reconnecting } from './reconnecting.ts';
import type { TargetResolver } from './targets.ts';

const unsure = {
  outcome: 'failed',
  detail: 'it was not confirmed, and may have been published',
} as const;

/** A job that is on its way. */
export interface PublishedJob {
  readonly job: Job;
  readonly record: JobRecord;
  readonly delivery: PublishOutcome;
  /** Why the target is broken, and therefore means nobody. */
  readonly problem?: string;
  /** Ends the calls of the listener that was given. */
  readonly stopListening: () => void;
}

/** A publication, for the other members of the cluster. */
export interface ToldPublication {
  readonly load: PublicationLoad;
  readonly serial: number;
  /** Transports may deliver it to the minions of the job alone. */
  readonly isByIds: boolean;
}

/** The other members of the cluster, which publish to minions as well. */
export interface OtherMembers {
  /** What tells them to publish a job, in the write that keeps it. */
  tell(publication: ToldPublication): Operation[];
  /** Has them publish a job that nobody keeps, and pass on what comes back. */
  tellUnkept(load: PublicationLoad, minions: readonly string[]): void;
}

export interface JobDispatcherOptions {
  readonly targets: TargetResolver;
  readonly cache: JobCache;
  readonly bus: EventBus;
  readonly publisher: Publisher;
  readonly reconnecting: Pick<Reconnecting, 'holdMs'>;
  readonly audit: AuditTrail;
  readonly nextJid: () => string;
  /** `master_id`, told in every publication; `null`: none. */
  readonly masterId: string | null;
  /** Ends the jobs that are followed: the master is being closed. */
  readonly closing: AbortSignal;
  readonly now: () => number;
  /** Has the other members of the cluster publish; `undefined`: there are none. */
  readonly cluster: OtherMembers | undefined;
}

interface Described {
  readonly record: JobRecord;
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
  readonly target: TargetExpression;
  readonly problem: string | undefined;
}

type JobRequest = PublishRequest & JobOrigin;

/** What of a request goes into the publication as it is. */
type CarriedFields = Pick<JobRequest, 'ret' | 'metadata' | 'requestedBy' | 'startEvent'>;

/** How a slice of a job is added. */
interface AddingSlice {
  readonly onReturn: ((result: JobReturn) => void) | undefined;
  /** Is written with it. */
  readonly also: readonly Operation[] | undefined;
}

/** Targets that transports may deliver to the resolved ids alone [WIRE 4.1]. */
const typesByIds: ReadonlySet<string> = new Set(['glob', 'pcre', 'list']);

/**
 * Publishes jobs. A publication is prepared (serial, signature), stored with its job, announced on
 * the event bus and sent, in this order [WIRE 10.1].
 */
export class JobDispatcher {
  readonly #options: JobDispatcherOptions;
  readonly #byJid = new KeyedMutex();

  constructor(options: JobDispatcherOptions) {
    this.#options = options;
  }

  /** Fires when nothing more will come. */
  get closing(): AbortSignal {
    return this.#options.closing;
  }

  /**
   * Publishes to every minion that the target means. With none, nothing is published and the
   * job's `minions` are empty.
   * @param onReturn called for each return; listening before the job leaves, it misses none
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  async publish(
    request: JobRequest,
    onReturn?: (result: JobReturn) => void,
  ): Promise<PublishedJob> {
    const described = await this.#describe(request);
    const { record, problem } = described;
    if (request.jid !== undefined && !isJid(request.jid)) {
      throw new MasterError('ERR_ARGS', 'jid is not a job id; expected 20 digits');
    }
    if (record.minions.length === 0) {
      const job = new Job(record, { isKept: false });
      const delivery = { queued: 0, skipped: 0 };
      const broken = problem === undefined ? {} : { problem };
      return { job, record, delivery, ...broken, stopListening: () => {} };
    }
    const sent = await this.#send(described, request, onReturn).catch(async (error: unknown) => {
      // Another member of the cluster may have published it.
      if (codeOf(error) === 'ERR_CLUSTER_OUTCOME') await this.#tellAudit(record, request, unsure);
      throw error;
    });
    await this.#tellAudit(record, request, { outcome: 'done' });
    const { skipped } = sent.delivery;
    if (skipped > 0) await this.#options.cache.addSkipped(record.jid, skipped);
    return { ...sent, record: { ...record, skipped } };
  }

  /** Prepares, stores, announces and sends one publication. */
  async #send(
    { record, target, resources }: Described,
    request: JobRequest,
    onReturn: ((result: JobReturn) => void) | undefined,
  ): Promise<AddedJob & { readonly delivery: PublishOutcome }> {
    const { publisher, cluster, cache, bus } = this.#options;
    const load = this.#load(record, target, request);
    const to = this.#addressees(record);
    const slot = await publisher.prepare(load);
    try {
      const also = cluster?.tell({ load, serial: slot.serial, isByIds: to.minionIds !== null });
      const sent = { ...record, publications: [{ ...slot.id, minions: record.minions.length }] };
      const { job, stopListening } =
        request.jid === undefined
          ? await cache.add(sent, onReturn, also)
          : await this.#byJid.run(record.jid, () => this.#addSlice(sent, { onReturn, also }));
      job.expectResources(resources);
      bus.fire(tags.jobNew(record.jid), newJobEvent(record));
      bus.fire(tags.jobPublish(record.jid), { ...load });
      return { job, stopListening, delivery: await slot.send(to) };
    } finally {
      slot.release();
    }
  }

  async #tellAudit(
    record: JobRecord,
    { by, user = 'saltbridge' }: JobRequest,
    end: Pick<AuditEntry, 'detail' | 'outcome'>,
  ): Promise<void> {
    const { audit } = this.#options;
    const { fun, arg, tgt, tgtType, minions, jid } = record;
    audit.append({
      ...auditOf(by, user),
      action: 'job.publish',
      what: String(fun),
      ...(arg.length === 0 ? {} : { arguments: await audit.digest(arg) }),
      target: `${tgtType} ${String(tgt)}`,
      ...named(minions),
      ...end,
      jid,
    });
  }

  /**
   * Adds a job, or more minions to the one that has its jid: all slices of a batch have one. Minions
   * that an ended process was to send it to, and never did, count as not being in it.
   * @throws MasterError ERR_ARGS where that is another job, or was for one of these minions already
   */
  async #addSlice(record: JobRecord, { onReturn, also }: AddingSlice): Promise<AddedJob> {
    const { cache } = this.#options;
    const { jid, minions } = record;
    const onOwnReturn = onReturn && onlyOf(minions, onReturn);
    const job = await cache.find(jid);
    if (job === undefined) return cache.add(record, onOwnReturn, also);
    const isSame = isDeepStrictEqual(job.fun, record.fun);
    if (!isSame || minions.some((id) => job.minions.has(id))) {
      const kept = await cache.record(jid);
      const notSent = kept === undefined ? new Set() : cache.notSentTo(kept);
      if (notSent.size > 0 && notSent.size === job.minions.size)
        return cache.add(record, onOwnReturn, also);
      const isNext = isSame && minions.every((id) => notSent.has(id) || !job.minions.has(id));
      if (!isNext) throw new MasterError('ERR_ARGS', `there is a job ${jid} already`);
    }
    await cache.extend(job, record, also);
    const stopListening = onOwnReturn === undefined ? () => {} : job.onReturn(onOwnReturn);
    return { job, stopListening };
  }

  /** A job id that no job has. */
  freshJid(): Promise<string> {
    return freshJid(this.#options.nextJid, this.#options.cache);
  }

  /**
   * Sends a job that is kept once more, under its jid: minions that have seen it take no notice.
   * @returns false if none of this jid is kept; nothing is sent then
   */
  async republish(jid: string): Promise<boolean> {
    const record = await this.#options.cache.record(jid);
    if (record === undefined) return false;
    const { metadata, requestedBy } = record;
    const load = this.#load(
      record,
      {},
      {
        ...(metadata === undefined ? {} : { metadata }),
        ...(requestedBy === undefined ? {} : { requestedBy }),
      },
    );
    const { publisher, cache, cluster } = this.#options;
    const to = this.#addressees(record);
    const slot = await publisher.prepare(load);
    try {
      const also = cluster?.tell({ load, serial: slot.serial, isByIds: to.minionIds !== null });
      await cache.publishAgain(jid, slot.id, also);
      await slot.send(to);
      return true;
    } finally {
      slot.release();
    }
  }

  /**
   * Asks minions about a job. The round is known by heart only: it is neither kept nor told as a
   * job of its own.
   * @returns ends the calls of `onReturn`; until then the round is not forgotten
   */
  async publishUnkept(
    minions: readonly string[],
    fun: string,
    arg: WireValue[],
    onReturn: (result: JobReturn) => void,
  ): Promise<() => void> {
    const { record, target } = await this.#describe({ tgt: minions, tgtType: 'list', fun, arg });
    const job = new Job(record, { isKept: false });
    const stopListening = job.onReturn(onReturn);
    this.#options.cache.remember(job);
    try {
      const load = this.#load(record, target, {});
      this.#options.cluster?.tellUnkept(load, record.minions);
      await this.#options.publisher.publish(load, this.#addressees(record));
    } catch (error) {
      stopListening();
      throw error;
    }
    return stopListening;
  }

  #load(
    record: JobRecord,
    { delimiter = ':' }: Pick<TargetExpression, 'delimiter'>,
    { ret = '', metadata, requestedBy, startEvent = false }: CarriedFields,
  ): PublicationLoad {
    const { masterId } = this.#options;
    return {
      fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
      arg: [...record.arg],
      tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
      tgt_type: record.tgtType,
      jid: record.jid,
      ret,
      user: record.user,
      ...(delimiter === ':' ? {} : { delimiter }),
      ...(masterId === null ? {} : { master_id: masterId }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(requestedBy === undefined ? {} : { id: requestedBy }),
      ...(startEvent ? { start_event: true } : {}),
    };
  }

  #addressees({ tgtType, minions }: JobRecord): Addressees {
    return {
      minionIds: typesByIds.has(tgtType) ? minions : null,
      replayMs: this.#options.reconnecting.holdMs(minions),
    };
  }

  async #describe(request: JobRequest): Promise<Described> {
    const arg = toArguments(request);
    const { targets } = this.#options;
    targets.requireNodegroups(request);
    const { target, minions, missing, resources, problem } = await targets.resolve(request);
    const record: JobRecord = {
      jid: request.jid ?? (await this.freshJid()),
      fun: request.fun,
      arg,
      tgt: target.tgt,
      tgtType: target.tgtType,
      user: request.user ?? 'saltbridge',
      minions,
      missing: [...new Set([...missing, ...(request.leftOut?.missing ?? [])])],
      ...(request.leftOut?.isNarrowed === true ? { isNarrowed: true } : {}),
      publishedAt: this.#options.now(),
      selfMade: false,
      ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
      ...(request.requestedBy === undefined ? {} : { requestedBy: request.requestedBy }),
    };
    return { record, target, resources, problem };
  }
}

/** Of a job with several slices, each follower is told of its own. */
function onlyOf(
  minions: readonly string[],
  onReturn: (result: JobReturn) => void,
): (result: JobReturn) => void {
  const slice = new Set(minions);
  return (result) => {
    if (slice.has(result.minion)) onReturn(result);
  };
}

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
import {
  type JobOrigin,
  type JobReturn,
  limitOwnerOf,
  MasterError,
  type PublishRequest,
} from '../api/index.ts';
import { type AuditEntry, type AuditTrail, auditOf, named } from '../audit/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import { Job } from './job.ts';
import { toArguments } from './job-arguments.ts';
import { type AddedJob, freshJid, type JobCache } from './job-cache.ts';
import { newJobEvent } from './job-events.ts';
import type { JobRecord } from './job-row.ts';
import type { Addressees, Publisher } from './publisher.ts';
import type { TargetResolver } from './targets.ts';

const unsure = {
  outcome: 'failed',
  detail: 'the write was not confirmed; the job may have been published',
} as const;

/** Result of publishing a job. */
export interface PublishedJob {
  readonly job: Job;
  readonly record: JobRecord;
  readonly delivery: PublishOutcome;
  /** Reason why the target is invalid. An invalid target matches no minion. */
  readonly problem?: string;
  /** Removes the `onReturn` listener of the job. */
  readonly stopListening: () => void;
}

/** Publication that other members of the cluster must send too. */
interface SharedPublication {
  readonly load: PublicationLoad;
  readonly serial: number;
  /**
   * Whether transports may send the publication only to the targeted minions instead of all
   * subscribers.
   */
  readonly isByIds: boolean;
}

/**
 * Other members of the cluster. They send publications to the minions that are connected to them.
 */
export interface OtherMembers {
  /**
   * Returns store operations that make the other members publish a job. The caller writes them in
   * one transaction with the job.
   */
  share(publication: SharedPublication): Operation[];
  /**
   * Makes the other members publish a job that is not stored, and forward its returns to this
   * member.
   */
  shareUnstored(load: PublicationLoad, minions: readonly string[]): void;
}

export interface JobDispatcherOptions {
  readonly targets: TargetResolver;
  readonly cache: JobCache;
  readonly bus: EventBus;
  readonly publisher: Publisher;
  readonly audit: AuditTrail;
  readonly context: Pick<MasterContext, 'closing' | 'nextJid' | 'now'>;
  /** `master_id`, which every publication contains. `null` if it is not set. */
  readonly masterId: string | null;
  /** Other members of the cluster, or `undefined` outside a cluster. */
  readonly cluster: OtherMembers | undefined;
}

interface Described {
  readonly record: JobRecord;
  readonly resources: ReadonlyMap<string, ReadonlySet<string>>;
  readonly target: TargetExpression;
  readonly problem: string | undefined;
}

type JobRequest = PublishRequest & JobOrigin;

/** Internal function call that is not stored as a job. */
interface UnstoredCall {
  /** Minions that run the function. */
  readonly tgt: readonly string[];
  readonly fun: string;
  readonly arg: readonly WireValue[];
  /** Requester on whose behalf the master makes the call. Default: the operator. */
  readonly by?: JobOrigin['by'] | undefined;
}

/** Fields of a request that are copied to the publication without a change. */
type CarriedFields = Pick<JobRequest, 'ret' | 'metadata' | 'requestedBy' | 'startEvent'>;

/**
 * Options for adding a slice to a job. A slice is a group of minions that get the job in one
 * publication, for example in a batch.
 */
interface AddingSlice {
  readonly onReturn: ((result: JobReturn) => void) | undefined;
  /**
   * Store operations to write in the same transaction as the slice (a group of minions that get the
   * job together). Default: none.
   */
  readonly also: readonly Operation[] | undefined;
}

/**
 * Target types that list or match ids. Transports may send publications with these types only to
 * the targeted minions [WIRE 4.1]. Other publications are sent to all subscribers.
 */
const typesByIds: ReadonlySet<string> = new Set(['glob', 'pcre', 'list']);

/**
 * Publishes jobs in these steps: it prepares the publication (serial and signature), stores it with
 * its job, emits the event about the new job, and sends the publication [WIRE 10.1].
 */
export class JobDispatcher {
  readonly #options: JobDispatcherOptions;
  readonly #byJid = new KeyedMutex();

  constructor(options: JobDispatcherOptions) {
    this.#options = options;
  }

  /** Signal that is aborted when no more returns can arrive, because the master closes. */
  get closing(): AbortSignal {
    return this.#options.context.closing;
  }

  /**
   * Publishes a job to every minion that the target matches. If no minion matches, nothing is
   * published and `minions` of the job is empty.
   * @param onReturn - called for each return. It is registered before the job is sent, so that it
   * receives all returns
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS; LimitExceeded if the user stores too many bytes
   */
  async publish(
    request: JobRequest,
    onReturn?: (result: JobReturn) => void,
  ): Promise<PublishedJob> {
    const described = await this.#describe(request);
    const { record, problem } = described;
    if (request.jid !== undefined && !isJid(request.jid)) {
      throw new MasterError('ERR_ARGS', '`jid` is not a job id: it must have 20 digits');
    }
    if (record.minions.length === 0) {
      const job = new Job(record, { isKept: false });
      const delivery = { queued: 0, skipped: 0 };
      const broken = problem === undefined ? {} : { problem };
      return { job, record, delivery, ...broken, stopListening: () => {} };
    }
    const sent = await this.#send(described, request, onReturn).catch(async (error: unknown) => {
      // The write may have failed after another member of the cluster has published the job.
      if (codeOf(error) === 'ERR_CLUSTER_OUTCOME') await this.#writeAudit(record, request, unsure);
      throw error;
    });
    await this.#writeAudit(record, request, { outcome: 'done' });
    const { skipped } = sent.delivery;
    if (skipped > 0) await this.#options.cache.addSkipped(record.jid, skipped);
    return { ...sent, record: { ...record, skipped } };
  }

  /** Prepares, stores, announces and sends the publication of a job. */
  async #send(
    { record, target, resources }: Described,
    request: JobRequest,
    onReturn: ((result: JobReturn) => void) | undefined,
  ): Promise<AddedJob & { readonly delivery: PublishOutcome }> {
    const { publisher, cluster, cache, bus } = this.#options;
    cache.requirePlace(request.by);
    const load = this.#load(record, target, request);
    const to = this.#addressees(record);
    const slot = await publisher.prepare(load, publishingOwner(record));
    try {
      const also = cluster?.share({ load, serial: slot.serial, isByIds: to.minionIds !== null });
      const sent = { ...record, publications: [{ ...slot.id, minions: record.minions.length }] };
      const { job, bytes, stopListening } =
        request.jid === undefined
          ? await cache.add(sent, onReturn, also)
          : await this.#byJid.run(record.jid, () => this.#addSlice(sent, { onReturn, also }));
      cache.stored.note(request.by, bytes);
      job.expectResources(resources);
      bus.fire(tags.jobNew(record.jid), newJobEvent(record));
      bus.fire(tags.jobPublish(record.jid), { ...load });
      return { job, bytes, stopListening, delivery: await slot.send(to) };
    } finally {
      slot.release();
    }
  }

  async #writeAudit(
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
   * Stores the record of a publication, in one of four ways:
   * - No job has this jid: the record becomes the job.
   * - The job has the same functions and none of these minions: adds the minions to the job. All
   *   publications of a batch have one jid.
   * - The job was sent to no minion: replaces it by the record.
   * - The job has the same functions and some of these minions, but the master stopped before it
   *   sent the job to them: adds the minions again.
   *
   * @throws MasterError ERR_ARGS if the job can be neither extended nor replaced
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
      if (!isNext)
        throw new MasterError('ERR_ARGS', `job ${jid} already exists; omit jid or choose another`);
    }
    await cache.extend(job, record, also);
    const stopListening = onOwnReturn === undefined ? () => {} : job.onReturn(onOwnReturn);
    return { job, bytes: 0, stopListening };
  }

  /** Returns an unused job id. */
  freshJid(): Promise<string> {
    return freshJid(this.#options.context.nextJid, this.#options.cache);
  }

  /**
   * Sends a stored job again with the same jid. Minions that have received it ignore the
   * repetition.
   * @returns `false` if no job with this jid is stored. Nothing was sent in this case
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
    const slot = await publisher.prepare(load, publishingOwner(record));
    try {
      const also = cluster?.share({ load, serial: slot.serial, isByIds: to.minionIds !== null });
      await cache.publishAgain(jid, slot.id, also);
      await slot.send(to);
      return true;
    } finally {
      slot.release();
    }
  }

  /**
   * Publishes an internal function call, such as `saltutil.find_job`, which asks about a job. The
   * call exists only in memory. It is not stored as a job, and no event announces it.
   * @param call - call with the minions, and its requester
   * @returns a function that removes `onReturn`. The published call is not evicted from memory
   * until this function is called
   */
  async publishUnstored(
    { by, ...call }: UnstoredCall,
    onReturn: (result: JobReturn) => void,
  ): Promise<() => void> {
    const requested = by === undefined ? {} : { by };
    const { record, target } = await this.#describe({ ...call, tgtType: 'list', ...requested });
    const job = new Job(record, { isKept: false });
    const stopListening = job.onReturn(onReturn);
    this.#options.cache.remember(job);
    try {
      const load = this.#load(record, target, {});
      const { publisher, cluster } = this.#options;
      const slot = await publisher.prepare(load, publishingOwner(record));
      try {
        cluster?.shareUnstored(load, record.minions);
        await slot.send(this.#addressees(record));
      } finally {
        slot.release();
      }
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
    return this.#options.publisher.addressees(minions, typesByIds.has(tgtType));
  }

  async #describe(request: JobRequest): Promise<Described> {
    const arg = toArguments(request);
    const { targets } = this.#options;
    targets.requireNodegroups(request);
    const { target, minions, missing, resources, problem } = await targets.resolve(request, {
      by: request.by,
    });
    const limitOwner = limitOwnerOf(request.by);
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
      publishedAt: this.#options.context.now(),
      selfMade: false,
      ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
      ...(limitOwner === undefined ? {} : { limitOwner }),
      ...(request.requestedBy === undefined ? {} : { requestedBy: request.requestedBy }),
    };
    return { record, target, resources, problem };
  }
}

/** Returns the name of the requester that takes turns with others when jobs are published. */
function publishingOwner({ limitOwner = 'operator' }: Pick<JobRecord, 'limitOwner'>): string {
  return limitOwner;
}

/** Wraps a listener so that it receives only the returns of these minions. */
function onlyOf(
  minions: readonly string[],
  onReturn: (result: JobReturn) => void,
): (result: JobReturn) => void {
  const slice = new Set(minions);
  return (result) => {
    if (slice.has(result.minion)) onReturn(result);
  };
}

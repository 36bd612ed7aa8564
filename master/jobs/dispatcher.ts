import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  isFunctionName,
  isJid,
  isWireMap,
  keywordNameOf,
  type MasterTransport,
  type OutgoingPublication,
  type PublicationLoad,
  type PublishOutcome,
  publicationEnvelope,
  type SigningAlgorithm,
  sealPublication,
  type TargetExpression,
  type WireValue,
} from '#minion-protocol';
import { BoundedQueue, codeOf, KeyedMutex } from '#runtime';
import type { Operation } from '#store';
import {
  type JobOrigin,
  type JobReturn,
  type JobUpdate,
  MasterError,
  type PublishRequest,
} from '../api/index.ts';
import { type AuditEntry, type AuditTrail, auditOf, named } from '../audit/index.ts';
import type { Auth, LastHeard, PublishKey } from '../auth/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import { Job } from './job.ts';
import { type AddedJob, freshJid, type JobCache } from './job-cache.ts';
import { newJobEvent } from './job-events.ts';
import type { JobRecord } from './job-row.ts';
import type { PublicationId, PublicationLog } from './publication-log.ts';
import type { TargetResolver } from './targets.ts';

const unsure = {
  outcome: 'failed',
  detail: 'it was not confirmed, and may have been published',
} as const;

// What a job asks of a minion, in the form in which it is published [WIRE 11.1, 11.5].

/** How many functions one job may have. */
const maxFunctions = 1000;

/** Functions and arguments as a caller gives them. */
interface Call {
  readonly fun: string | readonly string[];
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
}

/** Arguments of one function. */
interface SeparateArguments {
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Salt's mark of a map that holds keywords. */
const keywordMark = '__kwarg__';

/**
 * Positional values and keywords of one function. Programs may give keywords as the last value, a
 * map with `__kwarg__: true`: the mark is taken off here.
 * @throws MasterError ERR_ARGS
 */
export function separateKeywords(
  arg: readonly WireValue[],
  kwarg: Readonly<Record<string, WireValue>> = {},
): SeparateArguments {
  const last = arg.at(-1);
  if (!isWireMap(last) || last[keywordMark] !== true) return checkArguments({ arg, kwarg });
  const { [keywordMark]: _mark, ...marked } = last;
  return checkArguments({ arg: arg.slice(0, -1), kwarg: { ...marked, ...kwarg } });
}

/**
 * Any other map with the mark, and keywords with the two underscores of Salt's own, would mean to
 * a minion what no rule has looked at.
 * @throws MasterError ERR_ARGS
 */
export function checkArguments(separate: SeparateArguments): SeparateArguments {
  const { arg, kwarg } = separate;
  // protection: odd-marks
  if (arg.some(hasMark)) throw oddMark();
  const texts = arg.map((value) => (typeof value === 'string' ? keywordNameOf(value) : undefined));
  const reserved = [...Object.keys(kwarg), ...texts].find((name) => name?.startsWith('__'));
  // protection: reserved-keywords
  if (reserved !== undefined) throw reservedKeyword(reserved);
  return separate;
}

function oddMark(): MasterError {
  const problem = `${keywordMark} is the mark of the last value of arg, and its value is true; use kwarg`;
  return new MasterError('ERR_ARGS', problem);
}

function reservedKeyword(name: string): MasterError {
  return new MasterError('ERR_ARGS', `${name}: keywords that begin with __ are Salt's own`);
}

function hasMark(value: WireValue): boolean {
  return isWireMap(value)
    ? Object.hasOwn(value, keywordMark)
    : value instanceof Map && value.has(keywordMark);
}

/**
 * The `arg` of a publication: positional values first, keywords as one last map with the mark; for
 * several functions such a list for each.
 * @throws MasterError ERR_ARGS
 */
export function toArguments({ fun, arg = [], kwarg = {} }: Call): WireValue[] {
  if (typeof fun === 'string') {
    checkName(fun);
    return joinKeywords(separateKeywords(arg, kwarg));
  }
  for (const name of fun) checkName(name);
  if (Object.keys(kwarg).length > 0) {
    throw new MasterError('ERR_ARGS', 'kwarg is for one function; for several, use arg');
  }
  if (fun.length === 0 || fun.length > maxFunctions) {
    throw new MasterError('ERR_ARGS', `fun is a list of ${fun.length}; expected 1 to 1000 names`);
  }
  if (arg.length !== fun.length || !arg.every(Array.isArray)) {
    throw new MasterError('ERR_ARGS', 'arg is not a list of arguments for each function');
  }
  return arg.map((list) => joinKeywords(separateKeywords(list)));
}

/** Keywords last, as one map with the mark, which no keyword stands in the place of. */
export function joinKeywords({ arg, kwarg }: SeparateArguments): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg, [keywordMark]: true }];
}

function checkName(fun: string): void {
  if (isFunctionName(fun)) return;
  throw new MasterError('ERR_ARGS', 'fun is not the name of a function; expected module.function');
}

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

/** Publishes jobs: keeps the job, tells it, sends it, in this order [WIRE 10.1]. */
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
    const { record, target, resources, problem } = await this.#describe(request);
    if (request.jid !== undefined && !isJid(request.jid)) {
      throw new MasterError('ERR_ARGS', 'jid is not a job id; expected 20 digits');
    }
    if (record.minions.length === 0) {
      const job = new Job(record, { isKept: false });
      const delivery = { queued: 0, skipped: 0 };
      const broken = problem === undefined ? {} : { problem };
      return { job, record, delivery, ...broken, stopListening: () => {} };
    }
    const load = this.#load(record, target, request);
    const to = this.#addressees(record);
    const keep = async (publication: PublicationId, serial: number): Promise<AddedJob> => {
      const also = this.#options.cluster?.tell({ load, serial, isByIds: to.minionIds !== null });
      const sent = {
        ...record,
        publications: [{ ...publication, minions: record.minions.length }],
      };
      const added =
        request.jid === undefined
          ? await this.#options.cache.add(sent, onReturn, also)
          : await this.#byJid.run(record.jid, () => this.#addSlice(sent, { onReturn, also }));
      added.job.expectResources(resources);
      this.#options.bus.fire(tags.jobNew(record.jid), newJobEvent(record));
      this.#options.bus.fire(tags.jobPublish(record.jid), { ...load });
      return added;
    };
    const { delivery, kept } = await this.#options.publisher
      .publishKept(load, to, keep)
      .catch(async (error: unknown) => {
        // Another member of the cluster may have published it.
        // protection: jobs-of-unknown-outcome
        if (codeOf(error) === 'ERR_CLUSTER_OUTCOME') await this.#tellAudit(record, request, unsure);
        throw error;
      });
    const { job, stopListening } = kept;
    await this.#tellAudit(record, request, { outcome: 'done' });
    const { skipped } = delivery;
    if (skipped > 0) await this.#options.cache.addSkipped(record.jid, skipped);
    return { job, record: { ...record, skipped }, delivery, stopListening };
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
    await publisher.publishKept(load, to, (publication, serial) => {
      const also = cluster?.tell({ load, serial, isByIds: to.minionIds !== null });
      return cache.publishAgain(jid, publication, also);
    });
    return true;
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
    const { target, minions, missing, resources, problem } = await targets.resolve(request);
    const record: JobRecord = {
      jid: request.jid ?? (await this.freshJid()),
      fun: request.fun,
      arg,
      tgt: target.tgt,
      tgtType: target.tgtType,
      user: request.user ?? 'saltbridge',
      minions,
      missing,
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

/** More than any fleet has minions. */
const maxWaitingUpdates = 1_000_000;

/** What happened in one of the jobs. */
export type JobsEvent =
  | { readonly type: 'update'; readonly update: JobUpdate }
  | { readonly type: 'ended'; readonly minions: readonly string[] }
  | { readonly type: 'failed'; readonly error: unknown }
  | { readonly type: 'woken' };

/** Follows several jobs at once, as one stream. */
export class ParallelJobs {
  readonly #run: (minions: readonly string[]) => AsyncIterable<JobUpdate>;
  readonly #events = new BoundedQueue<JobsEvent>(maxWaitingUpdates, tooManyUpdates);
  #running = 0;

  constructor(run: (minions: readonly string[]) => AsyncIterable<JobUpdate>) {
    this.#run = run;
  }

  get isBusy(): boolean {
    return this.#running > 0;
  }

  start(minions: readonly string[]): void {
    if (minions.length === 0) return;
    this.#running += 1;
    void this.#follow(minions);
  }

  /** Makes {@link next} resolve without news. */
  wake(): void {
    this.#events.push({ type: 'woken' });
  }

  /** @throws what a job failed with */
  async next(): Promise<JobsEvent> {
    const { value, done } = await this.#events.next();
    if (done) return { type: 'woken' };
    if (value.type === 'failed') throw value.error;
    if (value.type === 'ended') this.#running -= 1;
    return value;
  }

  async #follow(minions: readonly string[]): Promise<void> {
    try {
      for await (const update of this.#run(minions)) this.#events.push({ type: 'update', update });
      this.#events.push({ type: 'ended', minions });
    } catch (error) {
      this.#events.push({ type: 'failed', error });
    }
  }
}

function tooManyUpdates(): Error {
  return new MasterError('ERR_JOB_LIMIT', 'the reader of this batch does not read its returns');
}

/** Whom a publication is for. */
export type Addressees = Omit<OutgoingPublication, 'envelope'>;

export interface PublisherOptions {
  readonly publishKey: PublishKey;
  readonly transports: readonly MasterTransport[];
  readonly rsa: Pick<Auth['rsa'], 'run'>;
  /** Signs what is published; `undefined`: `sign_pub_messages` is off. */
  readonly masterKey: KeyObject | undefined;
  /** `publish_signing_algorithm`. */
  readonly signingAlgorithm: SigningAlgorithm;
  readonly log: Pick<PublicationLog, 'next' | 'noteSending'>;
}

/**
 * Publications that are being signed at the same time: waiting for a thread takes longer than it
 * works, so that one after the other would be a few hundred a second.
 */
const signedAtOnce = 16;

/**
 * Brings publications to the minions, encrypted once whatever their number [WIRE 11]. They are
 * signed side by side and leave in the order of their serials, because a minion drops whatever
 * comes with a lower one.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #lastTaken: Promise<unknown> = Promise.resolve();
  #lastSent: Promise<unknown> = Promise.resolve();
  /** Those that have begun to be signed, the latest last. */
  readonly #signing: Promise<unknown>[] = [];

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes with the next serial; resolves when it has been handed to every transport.
   * @param to whom to deliver to, and how long to hold it for those who subscribe later
   */
  async publish(load: PublicationLoad, to: Addressees): Promise<PublishOutcome> {
    const { delivery } = await this.publishKept(load, to, async () => {});
    return delivery;
  }

  /**
   * The same. It is kept when it is ready to leave, and leaves as soon as it is kept: a master that
   * is killed leaves few jobs behind that are kept and never left.
   * @param keep it does not leave if this rejects
   */
  publishKept<T>(
    load: PublicationLoad,
    to: Addressees,
    keep: (publication: PublicationId, serial: number) => Promise<T>,
  ): Promise<{ readonly delivery: PublishOutcome; readonly kept: T }> {
    const publication = this.#options.log.next();
    const room = this.#signing.length < signedAtOnce ? undefined : this.#signing.shift();
    const taken = Promise.all([this.#lastTaken, room]).then(() => this.#options.publishKey.take());
    const signed = taken.then((it) => this.#sign(load, it));
    const ready = signed.then(async (envelope) => ({
      envelope,
      kept: await keep(publication, (await taken).serial),
    }));
    const turn = Promise.allSettled([ready, this.#lastSent]).then(async () => {
      const { envelope, kept } = await ready;
      // protection: noted-publications
      this.#options.log.noteSending(publication);
      return { delivery: this.#send({ ...to, envelope }), kept };
    });
    // What fails is told to the caller of this publication; the next one is not affected.
    this.#lastTaken = taken.catch(() => {});
    this.#lastSent = turn.catch(() => {});
    this.#signing.push(signed.catch(() => {}));
    return turn;
  }

  async #sign(
    load: PublicationLoad,
    { key, serial }: Awaited<ReturnType<PublishKey['take']>>,
  ): Promise<Uint8Array> {
    const { rsa, masterKey, signingAlgorithm: algorithm } = this.#options;
    const bytes = sealPublication({ ...load, serial }, key);
    const signature =
      masterKey === undefined
        ? undefined
        : await rsa.run({ kind: 'sign', masterKey, bytes, algorithm });
    return publicationEnvelope(bytes, signature, algorithm);
  }

  #send(publication: OutgoingPublication): PublishOutcome {
    let queued = 0;
    let skipped = 0;
    for (const transport of this.#options.transports) {
      const outcome = transport.publish(publication);
      queued += outcome.queued;
      skipped += outcome.skipped;
    }
    return { queued, skipped };
  }
}

// Minions that come back after a restart of the master.

export interface ReconnectingOptions {
  /** Minions that had signed in when the master started. */
  readonly signedIn: readonly string[];
  /** How long a publication waits for those that are away, milliseconds (`reconnect_wait`). */
  readonly waitMs: number;
  readonly lastHeard: Pick<LastHeard, 'onFirst'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * From the start of the master until every release has reconnected by itself, milliseconds:
 * minions over ZeroMQ wait up to 11 seconds (`recon_max`), 3006 over TCP a minute or more.
 */
const reconnectMs = 120_000;

/** Minions that had signed in before the master was restarted, and have not been heard since. */
export class Reconnecting {
  readonly #waitMs: number;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #away: Set<string>;
  /** When the others were heard first, milliseconds since 1970. */
  readonly #backAt = new Map<string, number>();

  constructor({ signedIn, waitMs, lastHeard, now }: ReconnectingOptions) {
    this.#waitMs = waitMs;
    this.#now = now;
    this.#startedAt = now();
    this.#away = new Set(signedIn);
    const stopListening = lastHeard.onFirst((id) => {
      if (this.#isOver()) stopListening();
      else if (this.#away.delete(id)) this.#backAt.set(id, now());
    });
  }

  /** How long a publication to these minions is held for those that subscribe later, milliseconds. */
  holdMs(minionIds: readonly string[]): number {
    if (this.#isOver() || this.#away.size === 0) return 0;
    return minionIds.some((id) => this.#away.has(id)) ? this.#waitMs : 0;
  }

  /** Whether a minion is away, or came back too late for a job that was published meanwhile. */
  isReconnecting(minionId: string, publishedAt: number): boolean {
    if (this.#isOver()) return false;
    if (this.#away.has(minionId)) return true;
    const backAt = this.#backAt.get(minionId);
    if (backAt === undefined || publishedAt < this.#startedAt) return false;
    return backAt > publishedAt + this.#waitMs;
  }

  #isOver(): boolean {
    if (this.#now() < this.#startedAt + reconnectMs) return false;
    this.#away.clear();
    this.#backAt.clear();
    return true;
  }
}

import { isLargerThan, KeyedMutex, unlimitedSteps, userWork, WorkBudget } from '#runtime';
import { type Entry, type Key, type Operation, type Store, tryToWrite } from '#store';
import {
  type AuditRequester,
  type JobReturn,
  limitOwnerOf,
  MasterError,
  minionOwner,
} from '../api/index.ts';
import { Job } from './job.ts';
import { JobBytes } from './job-bytes.ts';
import { returnRow, shortFunction, withoutValue } from './job-return.ts';
import { type JobRecord, jobRow, minionsOfPublications, withSlice } from './job-row.ts';
import type { PublicationId } from './publication-log.ts';
import { RequestMarks } from './request-marks.ts';
import type { ReturnBytes } from './return-bytes.ts';

const jobKey = (jid: string): Key => ['jobs', jid];
const returnKey = (
  jid: string,
  { minion, resource }: Pick<JobReturn, 'minion' | 'resource'>,
): Key => (resource === undefined ? ['returns', jid, minion] : ['returns', jid, minion, resource]);

/** Maximum number of jobs in memory. Other jobs are read from the store when they are needed. */
const maxRemembered = 2_000;
/**
 * Maximum number of minions of all jobs in memory together. Each job holds the set of its minions.
 */
const maxRememberedMinions = 250_000;

/** Job that was added to the cache. `stopListening` removes the listener for its returns. */
export interface AddedJob {
  readonly job: Job;
  /**
   * Size of the job's stored record, in bytes. 0 if jobs are not stored, or if the minions were
   * added to an existing job.
   */
  readonly bytes: number;
  readonly stopListening: () => void;
}

/** Job of a return. */
interface ReturnOrigin {
  readonly jid: string;
  /** Name under which limits count the return. `undefined` for the operator and services. */
  readonly owner: string | undefined;
  /** Minion that sent the return to a job of the owner. */
  readonly minion?: string | undefined;
  /** If the return is the result of a runner, the user who called the runner. */
  readonly by?: AuditRequester | undefined;
}

type PutOperation = Extract<Operation, { op: 'put' }>;

/**
 * Function of an extension. It returns store operations that the master writes in one transaction
 * with a minion's return.
 */
export type ReturnRows = (jid: string, result: JobReturn) => readonly Operation[];

/** Maximum number of unfinished jobs that a listing returns. */
const maxUnderWay = 100;

/**
 * Estimated constant part of the work for reading and decoding a stored job or return, in steps of
 * a `WorkBudget`. The work for each byte is counted in addition.
 */
const stepsOfRow = 2000;
/** Estimated work for reading and decoding the key of a return, in steps of a `WorkBudget`. */
const stepsOfKey = 200;
/** Number of bytes of a stored job or return that are decoded in about one step. */
const bytesPerStep = 8;

/**
 * Size above which a return is encoded and written in two slices, in bytes. Both take memory of the
 * size of the return.
 */
const maxBytesAtOnce = 1024 * 1024;

export interface JobCacheOptions {
  readonly store: Store;
  /** `job_cache`: whether jobs are stored at all. */
  readonly isOn: boolean;
  /** `keep_jobs_seconds` in milliseconds. It applies to jobs that are published from now on. */
  readonly keepMs: number;
  /**
   * Storage time of the identifiers of requests in which minions report self-started jobs, in
   * milliseconds. By these identifiers, the master recognizes repeated requests. After this time, a
   * repeated request cannot be decrypted, because the session key has changed.
   */
  readonly keepMarksMs: number;
  readonly now: () => number;
  /**
   * Returns whether a publication was certainly never sent, because the process that prepared it
   * ended first. Default: a function that returns false.
   */
  readonly wasNeverSent?: (publication: PublicationId) => boolean;
  /** Whether other members of a cluster store jobs in the same store. Default: false. */
  readonly isShared?: boolean;
  /** Limits the bytes of the returns of each user. Default: they are not limited. */
  readonly returnBytes?: Pick<ReturnBytes, 'requirePlace' | 'store'>;
}

/**
 * Published jobs and their returns, stored for `keep_jobs_seconds`. A limited number of jobs is
 * also available in memory, so that a return of such a job requires no read from the store.
 */
export class JobCache {
  /** Limits the bytes of jobs that each user may store in a period. */
  readonly stored: JobBytes = new JobBytes();
  /**
   * Functions of extensions. Each returns store operations that are written together with a
   * minion's return. The list is set before requests arrive.
   */
  returnRows: readonly ReturnRows[] = [];
  readonly #options: JobCacheOptions;
  #keepMs: number;
  readonly #mutex = new KeyedMutex();
  readonly #marks: RequestMarks;
  /**
   * Names of the returns (jid and minion) that this master is writing to the store now. In a
   * cluster, the master ignores the store's reports about these writes.
   */
  readonly #taking = new Set<string>();
  readonly #remembered = new Map<string, Job>();
  #rememberedMinions = 0;

  constructor(options: JobCacheOptions) {
    this.#options = options;
    this.#keepMs = options.keepMs;
    const { store, keepMarksMs, now } = options;
    this.#marks = new RequestMarks({ store, root: 'self-made', keepMs: keepMarksMs, now });
  }

  /**
   * Checks that a requester may store another job: neither the bytes of its jobs nor the stored
   * returns of its jobs have reached their limit.
   * @throws LimitExceeded
   */
  requirePlace(by: AuditRequester | undefined): void {
    this.stored.requirePlace(by);
    const owner = limitOwnerOf(by);
    if (owner !== undefined) this.#options.returnBytes?.requirePlace(owner);
  }

  /** Sets the storage time for jobs that are published from now on. */
  keepFor(milliseconds: number): void {
    this.#keepMs = milliseconds;
  }

  /**
   * Stores a job. It is durable when the promise resolves, so that returns never refer to an
   * unknown job.
   * @param onReturn - listener that receives all returns. A job with a listener is not evicted from
   * memory
   * @param also - store operations that are written together with the job
   * @throws MasterError ERR_ARGS if a member of the cluster has a job with this jid
   */
  async add(
    record: JobRecord,
    onReturn?: (result: JobReturn) => void,
    also: readonly Operation[] = [],
  ): Promise<AddedJob> {
    const job = new Job(record, { isKept: this.#options.isOn });
    const stopListening = onReturn === undefined ? () => {} : job.onReturn(onReturn);
    if (!this.#options.isOn) return { job: this.remember(job), bytes: 0, stopListening };
    const put = this.#putRecord(record);
    if (this.#options.isShared) await this.#addOnce(job, put, also);
    else await this.#options.store.write([put]);
    return { job: this.remember(job), bytes: put.value.length, stopListening };
  }

  async #addOnce(job: Job, put: PutOperation, also: readonly Operation[]): Promise<void> {
    const { jid } = job;
    // Other members publish the job, and forward returns, before this write is acknowledged. So the
    // job must be in memory before.
    if (!this.#remembered.has(jid)) this.remember(job);
    try {
      const isFirst = await tryToWrite(this.#options.store, [{ ...put, ifRevision: 0 }, ...also]);
      if (!isFirst)
        throw new MasterError('ERR_ARGS', `job ${jid} already exists; omit jid or choose another`);
    } catch (error) {
      if (this.#remembered.get(jid) === job) this.#forget(jid);
      throw error;
    }
  }

  /**
   * Adds minions to an existing job. Durable when the promise resolves.
   * @param job - the existing job
   * @param slice - record with the additional minions, which do not belong to the job yet or never
   * received it
   * @param also - store operations that are written together with the change
   */
  async extend(job: Job, slice: JobRecord, also: readonly Operation[] = []): Promise<void> {
    const { jid, minions } = slice;
    await this.#change(jid, (kept) => withSlice(kept, slice), also);
    job.extend(minions);
    if (this.#remembered.get(jid) === job) this.#rememberedMinions += minions.length;
  }

  /** Records that a job is published again. Durable when the promise resolves. */
  async publishAgain(
    jid: string,
    publication: PublicationId,
    also: readonly Operation[] = [],
  ): Promise<void> {
    const again = (kept: JobRecord): JobRecord => ({
      ...kept,
      publications: [{ ...publication, minions: kept.minions.length }],
    });
    await this.#change(jid, again, also);
  }

  /**
   * Updates a job in memory from its stored row, which another member of the cluster has changed.
   * The row may contain additional minions.
   */
  noteExtended(entry: Pick<Entry, 'key' | 'value'>): void {
    const job = this.#remembered.get(entry.key.at(-1) ?? '');
    job?.extend(jobRow.decode(entry).minions);
  }

  /** Whether this master is currently storing a return of a minion. */
  isTaking(jid: string, minion: string): boolean {
    return this.#taking.has(takingName(jid, minion));
  }

  /**
   * Returns the minions that certainly never received a job, because the master's process ended
   * before it sent the job.
   */
  notSentTo(record: JobRecord): ReadonlySet<string> {
    return minionsOfPublications(record, this.#options.wasNeverSent ?? (() => false));
  }

  /**
   * Records the number of subscribers that did not receive the publication of a job because their
   * queues were full.
   */
  async addSkipped(jid: string, count: number): Promise<void> {
    await this.#change(jid, (kept) => ({ ...kept, skipped: (kept.skipped ?? 0) + count }));
  }

  /**
   * Changes the stored record of a job. Does nothing if the job is not stored. Changes of the same
   * job are made one after the other, because parts of a batch can change the job at the same time.
   */
  async #change(
    jid: string,
    change: (kept: JobRecord) => JobRecord,
    also: readonly Operation[] = [],
  ): Promise<void> {
    await this.#mutex.run(jid, async () => {
      const kept = await this.record(jid);
      if (kept !== undefined)
        await this.#options.store.write([this.#putRecord(change(kept)), ...also]);
    });
  }

  /** Keeps a job in memory without storing it, and evicts the oldest jobs if there are too many. */
  remember(job: Job): Job {
    this.#forget(job.jid);
    this.#remembered.set(job.jid, job);
    this.#rememberedMinions += job.minions.size;
    this.#forgetOldest();
    return job;
  }

  /** Returns the job with this jid, from memory or from the store. */
  async find(jid: string): Promise<Job | undefined> {
    const known = this.#remembered.get(jid);
    if (known !== undefined) return known;
    const entry = await this.#options.store.get(jobKey(jid));
    if (entry === undefined) return undefined;
    return (
      this.#remembered.get(jid) ?? this.remember(new Job(jobRow.decode(entry), { isKept: true }))
    );
  }

  /**
   * Stores a return of a minion. Durable when the promise resolves. Its bytes count for the user who
   * started the job, and for the minion's part of this user's share. The return of a resource that
   * the job did not ask for counts for the minion. If the user or minion has no space left, a notice
   * is stored instead of the value.
   * @returns `false` if a return of the minion or resource is already stored. The stored return is
   * unchanged
   */
  addMinionReturn(job: Job, result: JobReturn): Promise<boolean> {
    const { minion, resource } = result;
    const isAsked = resource === undefined || job.expectedOf(minion)?.has(resource) === true;
    const owner = isAsked ? job.limitOwner : minionOwner(minion);
    return this.#addReturn({ jid: job.jid, owner, minion: isAsked ? minion : undefined }, result);
  }

  /**
   * Stores a return. Durable when the promise resolves.
   * @param by - if the return is the result of a runner, the user who called the runner. The bytes
   * of the result count towards the limit of this user. Default: no limit applies
   * @returns `false` if a return of the minion or resource is already stored. The stored return is
   * unchanged
   */
  addReturn(jid: string, result: JobReturn, by?: AuditRequester): Promise<boolean> {
    return this.#addReturn({ jid, owner: limitOwnerOf(by), by }, result);
  }

  async #addReturn({ jid, owner, minion, by }: ReturnOrigin, result: JobReturn): Promise<boolean> {
    const put = this.#putReturn(jid, result);
    this.stored.note(by, put.value.length);
    if (put.value.length > maxBytesAtOnce) await giveWay(result);
    const reduced = () => [this.#putReturn(jid, withoutValue(result))];
    return this.#writeCounted({ owner, minion, rows: [put], reduced }, (rows) =>
      this.#writeReturn(jid, result, [...rows, ...this.#rowsOf(jid, result)]),
    );
  }

  /** Writes the rows of a return, and counts their bytes for its owner. */
  async #writeCounted(
    counted: Omit<Parameters<ReturnBytes['store']>[0], 'keepMs'>,
    write: (rows: readonly Operation[]) => Promise<boolean>,
  ): Promise<boolean> {
    const { returnBytes } = this.#options;
    if (returnBytes === undefined) return write(counted.rows);
    return returnBytes.store({ ...counted, keepMs: this.#keepMs }, write);
  }

  async #writeReturn(
    jid: string,
    result: JobReturn,
    operations: readonly Operation[],
  ): Promise<boolean> {
    if (!this.#options.isShared) return tryToWrite(this.#options.store, operations);
    const name = takingName(jid, result.minion);
    this.#taking.add(name);
    try {
      const isFirst = await tryToWrite(this.#options.store, operations);
      if (!isFirst) await this.#answerByKept(jid, result);
      return isFirst;
    } finally {
      this.#taking.delete(name);
    }
  }

  /**
   * Updates the job in memory with a return that another member has stored while this member tried
   * to store the same return. This is necessary because a member ignores notices of the store about
   * a return during its own write.
   */
  async #answerByKept(jid: string, result: JobReturn): Promise<void> {
    const kept = await this.#options.store.get(returnKey(jid, result));
    if (kept !== undefined) this.#remembered.get(jid)?.answer(returnRow.decode(kept));
  }

  /**
   * Stores a job that a minion started itself, with its return. If `job_cache` is off, stores only
   * the identifier of the request.
   * @param mark - identifier of the minion's request. If the minion repeats the request, no second
   * job is stored. `undefined`: repetitions are not recognized
   * @returns `false` if the request was already stored
   */
  async addSelfMade(
    record: JobRecord,
    result: JobReturn,
    mark: string | undefined,
  ): Promise<boolean> {
    if (!this.#options.isOn) return this.addMark(result.minion, mark);
    const put = this.#putReturn(record.jid, result);
    if (put.value.length > maxBytesAtOnce) await giveWay(result);
    const { minion } = result;
    const counted = {
      owner: minionOwner(minion),
      rows: [this.#putRecord(record), put],
      reduced: () => [
        this.#putRecord(withoutArguments(record)),
        this.#putReturn(record.jid, withoutValue(result)),
      ],
    };
    return this.#writeCounted(counted, (rows) =>
      this.#marks.write(minion, mark, [...rows, ...this.#rowsOf(record.jid, result)]),
    );
  }

  /**
   * Stores only the identifier of a request in which a minion reports a job that it started itself.
   * The job itself is not stored. See {@link addSelfMade}.
   * @returns `false` if the identifier was already stored
   */
  async addMark(minionId: string, mark: string | undefined): Promise<boolean> {
    return this.#marks.write(minionId, mark, []);
  }

  /**
   * Whether the identifier (mark) of a request is stored. If so, the job that the minion reported
   * in this request has already been processed.
   */
  async hasMark(minionId: string, mark: string | undefined): Promise<boolean> {
    return mark !== undefined && this.#marks.has(minionId, mark);
  }

  /** Returns the record of a job, or `undefined` if it is not stored any more. */
  async record(jid: string): Promise<JobRecord | undefined> {
    const entry = await this.#options.store.get(jobKey(jid));
    return entry === undefined ? undefined : jobRow.decode(entry);
  }

  /**
   * Yields the stored jobs, starting with the latest jid.
   * @param budget - work budget of the request. Each job counts as work. When a slice of the budget
   * is used up, other requests run first
   */
  async *records(
    limit: number,
    budget: WorkBudget = new WorkBudget(userWork),
  ): AsyncIterableIterator<JobRecord> {
    const rows = this.#options.store.list(['jobs'], { reverse: true, limit });
    yield* decodeInSlices(rows, (entry) => jobRow.decode(entry), budget);
  }

  /** Returns the job if it is in memory. */
  remembered(jid: string): Job | undefined {
    return this.#remembered.get(jid);
  }

  /**
   * Returns unfinished jobs, latest first. A job is unfinished if a caller follows it, minions have
   * confirmed that they run it, or it was published less than `idleTimeoutMs` ago. Returns at most
   * 100 jobs.
   */
  underWay(idleTimeoutMs: number): readonly Job[] {
    const since = this.#options.now() - idleTimeoutMs;
    const found = [...this.#remembered.values()].filter((job) => {
      if (!job.isKept || job.answered >= job.minions.size) return false;
      return job.isWatched || job.running.size > 0 || job.publishedAt > since;
    });
    return found.reverse().slice(0, maxUnderWay);
  }

  /** Returns the stored return of a minion or resource, or `undefined`. */
  async storedReturn(
    jid: string,
    from: Pick<JobReturn, 'minion' | 'resource'>,
  ): Promise<JobReturn | undefined> {
    const entry = await this.#options.store.get(returnKey(jid, from));
    return entry === undefined ? undefined : returnRow.decode(entry);
  }

  /**
   * Yields the stored returns of a job.
   * @param budget - work budget of the request. Each return counts as work. When a slice of the
   * budget is used up, other requests run first
   */
  async *returns(
    jid: string,
    budget: WorkBudget = new WorkBudget(userWork),
  ): AsyncIterableIterator<JobReturn> {
    const rows = this.#options.store.list(['returns', jid]);
    yield* decodeInSlices(rows, (entry) => returnRow.decode(entry), budget);
  }

  /**
   * Returns the minions whose returns of a job are stored. Reads no values of returns.
   * @param budget - work budget of the request. Each return counts as work
   */
  async returnedMinions(jid: string, budget: WorkBudget): Promise<readonly string[]> {
    const minions = new Set<string>();
    for await (const [, , minion] of this.#options.store.keys(['returns', jid])) {
      await budget.giveWayAfter(stepsOfKey);
      if (minion !== undefined) minions.add(minion);
    }
    return [...minions];
  }

  #putRecord(record: JobRecord): PutOperation {
    const value = jobRow.encode(record);
    return { op: 'put', key: jobKey(record.jid), value, expiresAt: this.#expiry() };
  }

  #putReturn(jid: string, result: JobReturn): PutOperation {
    const key = returnKey(jid, result);
    const value = returnRow.encode(result);
    return { op: 'put', key, value, expiresAt: this.#expiry(), ifRevision: 0 };
  }

  #rowsOf(jid: string, result: JobReturn): readonly Operation[] {
    return this.returnRows.flatMap((rows) => rows(jid, result));
  }

  #expiry(): number {
    return this.#options.now() + this.#keepMs;
  }

  #forgetOldest(): void {
    for (const [jid, job] of this.#remembered) {
      const { size } = this.#remembered;
      const isFull = size > maxRemembered || this.#rememberedMinions > maxRememberedMinions;
      if (!isFull || size === 1) return;
      if (!job.isWatched) this.#forget(jid);
    }
  }

  #forget(jid: string): void {
    this.#rememberedMinions -= this.#remembered.get(jid)?.minions.size ?? 0;
    this.#remembered.delete(jid);
  }
}

/** Returns a copy of the record of a self-started job without the large values of the minion. */
function withoutArguments(record: JobRecord): JobRecord {
  const { minions, fun, user } = record;
  const isLarge = isLargerThan(user, { values: 1, characters: 128 });
  return { ...record, arg: [], fun: shortFunction(fun), user: isLarge ? String(minions) : user };
}

function takingName(jid: string, minion: string): string {
  return `${jid} ${minion}`;
}

/** Lets other work run between the encoding of a large return and its write. */
async function giveWay({ minion }: JobReturn): Promise<void> {
  await new WorkBudget(unlimitedSteps, minionOwner(minion)).giveWay();
}

/**
 * Returns an unused job id. It checks stored jobs too, because the clock may have been set back
 * since an earlier run of the master.
 */
export async function freshJid(
  nextJid: () => string,
  jobs: Pick<JobCache, 'find'>,
): Promise<string> {
  for (;;) {
    const jid = nextJid();
    if ((await jobs.find(jid)) === undefined) return jid;
  }
}

/** Decodes rows in slices, because the store may yield many large rows in one turn. */
async function* decodeInSlices<T>(
  entries: AsyncIterable<Entry>,
  decode: (entry: Entry) => T,
  budget: WorkBudget,
): AsyncIterableIterator<T> {
  for await (const entry of entries) {
    await budget.giveWayAfter(stepsOfRow + entry.value.length / bytesPerStep);
    yield decode(entry);
  }
}

/**
 * Stored jobs and their returns. A bounded number of jobs is also held in memory, so that a return
 * costs no look-up.
 */

import { KeyedMutex } from '#runtime';
import { type Entry, type Key, type Operation, type Store, StoreError } from '#store';
import { type JobReturn, MasterError } from '../api/index.ts';
import { Job } from './job.ts';
import { returnRow } from './job-return.ts';
import { type JobRecord, jobRow, minionsOfPublications, withSlice } from './job-row.ts';
import type { PublicationId } from './publication-log.ts';

const jobKey = (jid: string): Key => ['jobs', jid];
const markKey = (minionId: string, mark: string): Key => ['self-made', minionId, mark];
const returnKey = (jid: string, { minion, resource }: JobReturn): Key =>
  resource === undefined ? ['returns', jid, minion] : ['returns', jid, minion, resource];

/** How many jobs are known by heart; older ones are read from the store again when asked for. */
const maxRemembered = 2_000;
/** For how many minions all of them together: a job knows each of its own. */
const maxRememberedMinions = 250_000;

/** A job that was kept, and the end of listening to it. */
export interface AddedJob {
  readonly job: Job;
  readonly stopListening: () => void;
}

/** Jobs under way that are told of. */
const maxUnderWay = 100;

export interface JobCacheOptions {
  readonly store: Store;
  /** `job_cache`: whether anything is kept at all. */
  readonly isOn: boolean;
  /** `keep_jobs_seconds`, in milliseconds, of jobs that are published from now on. */
  readonly keepMs: number;
  /** As long as a request that was sent once can still be opened, milliseconds. */
  readonly keepMarksMs: number;
  readonly now: () => number;
  /** Whether the process that was to send it ended before it did. Default: not known. */
  readonly wasNeverSent?: (publication: PublicationId) => boolean;
  /** Whether other members of a cluster keep jobs in the same store. Default false. */
  readonly isShared?: boolean;
}

/**
 * The jobs that were published and what came back, in the store for `keep_jobs_seconds`. What is
 * under way is remembered as well, so that a return costs no look-up.
 */
export class JobCache {
  readonly #options: JobCacheOptions;
  #keepMs: number;
  readonly #mutex = new KeyedMutex();
  /** Returns that are being written by this master, in a cluster. */
  readonly #taking = new Set<string>();
  readonly #remembered = new Map<string, Job>();
  #rememberedMinions = 0;

  constructor(options: JobCacheOptions) {
    this.#options = options;
    this.#keepMs = options.keepMs;
  }

  /** Keeps jobs that are published from now on so many milliseconds. */
  keepFor(milliseconds: number): void {
    this.#keepMs = milliseconds;
  }

  /**
   * Keeps a job; durable when it resolves, so that no return of it comes to an unknown job.
   * @param onReturn listens from the beginning: what is listened to is not forgotten
   * @param also is written with it
   * @throws MasterError ERR_ARGS where a member of the cluster has a job of that jid already
   */
  async add(
    record: JobRecord,
    onReturn?: (result: JobReturn) => void,
    also: readonly Operation[] = [],
  ): Promise<AddedJob> {
    const job = new Job(record, { isKept: this.#options.isOn });
    const stopListening = onReturn === undefined ? () => {} : job.onReturn(onReturn);
    if (this.#options.isShared) await this.#addOnce(job, record, also);
    else if (this.#options.isOn) await this.#options.store.write([this.#putRecord(record)]);
    return { job: this.remember(job), stopListening };
  }

  async #addOnce(job: Job, record: JobRecord, also: readonly Operation[]): Promise<void> {
    const { jid } = record;
    // Other members publish it, and take returns, before the write is acknowledged here.
    if (!this.#remembered.has(jid)) this.remember(job);
    try {
      const isFirst = await this.#writeOnce([
        { ...this.#putRecord(record), ifRevision: 0 },
        ...also,
      ]);
      if (!isFirst) throw new MasterError('ERR_ARGS', `there is a job ${jid} already`);
    } catch (error) {
      if (this.#remembered.get(jid) === job) this.#forget(jid);
      throw error;
    }
  }

  /**
   * Publishes a job to more minions under its jid; durable when it resolves.
   * @param job of that jid
   * @param slice the same for the minions that it has not been for yet, or was never sent to
   * @param also is written with it
   */
  async extend(job: Job, slice: JobRecord, also: readonly Operation[] = []): Promise<void> {
    const { jid, minions } = slice;
    await this.#change(jid, (kept) => withSlice(kept, slice), also);
    job.extend(minions);
    if (this.#remembered.get(jid) === job) this.#rememberedMinions += minions.length;
  }

  /** Keeps that a job is published once more; durable when it resolves. */
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

  /** Another member of the cluster may have published a job to more minions. */
  noteExtended(entry: Pick<Entry, 'key' | 'value'>): void {
    const job = this.#remembered.get(entry.key.at(-1) ?? '');
    job?.extend(jobRow.decode(entry).minions);
  }

  /** Whether this master is keeping a return of a minion right now. */
  isTaking(jid: string, minion: string): boolean {
    return this.#taking.has(takingName(jid, minion));
  }

  /** The minions of a job that it was certainly never sent to: its process ended before. */
  notSentTo(record: JobRecord): ReadonlySet<string> {
    return minionsOfPublications(record, this.#options.wasNeverSent ?? (() => false));
  }

  /** Keeps that subscribers were passed over when a job was published. */
  async addSkipped(jid: string, count: number): Promise<void> {
    await this.#change(jid, (kept) => ({ ...kept, skipped: (kept.skipped ?? 0) + count }));
  }

  /** One change of a job after the other: slices of a batch are published side by side. */
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

  /** Knows a job by heart only; its returns are told and not kept. */
  remember(job: Job): Job {
    this.#forget(job.jid);
    this.#remembered.set(job.jid, job);
    this.#rememberedMinions += job.minions.size;
    this.#forgetOldest();
    return job;
  }

  /** The job of this jid, if one was published. */
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
   * Keeps a return, durable when it resolves.
   * @returns false if that of the minion, or of its resource, was kept already; it stays as it was
   */
  async addReturn(jid: string, result: JobReturn): Promise<boolean> {
    if (!this.#options.isShared) return this.#writeOnce([this.#putReturn(jid, result)]);
    const name = takingName(jid, result.minion);
    this.#taking.add(name);
    try {
      const isFirst = await this.#writeOnce([this.#putReturn(jid, result)]);
      if (!isFirst) await this.#answerByKept(jid, result);
      return isFirst;
    } finally {
      this.#taking.delete(name);
    }
  }

  /** Another member took the same return, and this one did not look because it took it too. */
  async #answerByKept(jid: string, result: JobReturn): Promise<void> {
    const kept = await this.#options.store.get(returnKey(jid, result));
    if (kept !== undefined) this.#remembered.get(jid)?.answer(returnRow.decode(kept));
  }

  /**
   * Keeps a job that a minion started itself together with its return.
   * @param mark of the request, so that its repetition is no other job
   * @returns false if that request was kept already
   */
  async addSelfMade(
    record: JobRecord,
    result: JobReturn,
    mark: string | undefined,
  ): Promise<boolean> {
    if (!this.#options.isOn) return this.addMark(result.minion, mark);
    return this.#writeOnce([
      this.#putRecord(record),
      this.#putReturn(record.jid, result),
      ...this.#putMark(result.minion, mark),
    ]);
  }

  /** Keeps the mark of a self-made job alone; see {@link addSelfMade}. */
  async addMark(minionId: string, mark: string | undefined): Promise<boolean> {
    return this.#writeOnce(this.#putMark(minionId, mark));
  }

  /** Whether a self-made job of this mark is known. */
  async hasMark(minionId: string, mark: string | undefined): Promise<boolean> {
    if (mark === undefined) return false;
    return (await this.#options.store.get(markKey(minionId, mark))) !== undefined;
  }

  /** The job's description, if it is still kept. */
  async record(jid: string): Promise<JobRecord | undefined> {
    const entry = await this.#options.store.get(jobKey(jid));
    return entry === undefined ? undefined : jobRow.decode(entry);
  }

  /** Jobs that are kept, the latest jid first. */
  async *records(limit: number): AsyncIterableIterator<JobRecord> {
    for await (const entry of this.#options.store.list(['jobs'], { reverse: true, limit })) {
      yield jobRow.decode(entry);
    }
  }

  /** The job, if it is known by heart. */
  remembered(jid: string): Job | undefined {
    return this.#remembered.get(jid);
  }

  /**
   * Jobs that are not over, the latest first: somebody follows them, minions say that they are at
   * it, or they were published less than `idleTimeoutMs` ago. At most 100.
   */
  underWay(idleTimeoutMs: number): readonly Job[] {
    const since = this.#options.now() - idleTimeoutMs;
    const found = [...this.#remembered.values()].filter((job) => {
      if (!job.isKept || job.answered >= job.minions.size) return false;
      return job.isWatched || job.running.size > 0 || job.publishedAt > since;
    });
    return found.reverse().slice(0, maxUnderWay);
  }

  /** What has come back for a job. */
  async *returns(jid: string): AsyncIterableIterator<JobReturn> {
    for await (const entry of this.#options.store.list(['returns', jid]))
      yield returnRow.decode(entry);
  }

  async #writeOnce(operations: readonly Operation[]): Promise<boolean> {
    try {
      await this.#options.store.write(operations);
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_REVISION') return false;
      throw error;
    }
  }

  #putRecord(record: JobRecord): Extract<Operation, { op: 'put' }> {
    const value = jobRow.encode(record);
    return { op: 'put', key: jobKey(record.jid), value, expiresAt: this.#expiry() };
  }

  #putReturn(jid: string, result: JobReturn): Operation {
    const key = returnKey(jid, result);
    const value = returnRow.encode(result);
    return { op: 'put', key, value, expiresAt: this.#expiry(), ifRevision: 0 };
  }

  #putMark(minionId: string, mark: string | undefined): Operation[] {
    if (mark === undefined) return [];
    const expiresAt = this.#options.now() + this.#options.keepMarksMs;
    const key = markKey(minionId, mark);
    return [{ op: 'put', key, value: new Uint8Array(0), expiresAt, ifRevision: 0 }];
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

function takingName(jid: string, minion: string): string {
  return `${jid} ${minion}`;
}

/** A job id that no job has: the clock may have gone back since an earlier run of the master. */
export async function freshJid(
  nextJid: () => string,
  jobs: Pick<JobCache, 'find'>,
): Promise<string> {
  for (;;) {
    const jid = nextJid();
    if ((await jobs.find(jid)) === undefined) return jid;
  }
}

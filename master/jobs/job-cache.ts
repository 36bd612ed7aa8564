import { randomBytes } from 'node:crypto';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { isWireMap, packLocal, unpackLocal, type WireMap, type WireValue } from '#minion-protocol';
import { isDiskFull, KeyedMutex, readTextIfPresent, tryParseJson } from '#runtime';
import {
  type Entry,
  hasEnded,
  type Key,
  type Operation,
  ownIdentity,
  type Store,
  StoreError,
} from '#store';
import { type JobReturn, MasterError } from '../api/index.ts';
import { tags } from '../events/index.ts';

// Which publications of former processes of this master were certainly never sent. A job is stored
// before it is sent, so a process that is killed in between leaves a job that no minion got.
//
// Publications are numbered in the order in which they are sent. Before one is sent, its number is
// written to a small file. That write is not synchronised: it survives the process, and perhaps not the
// machine. So the file counts only while the kernel runs that it was written under.

/** A publication of one process of the master. */
export interface PublicationId {
  /** Random, of that process. */
  readonly process: string;
  /** Higher than that of each publication that it sent before. */
  readonly number: number;
}

export interface PublicationLogOptions {
  readonly store: Store;
  /** Where the file is kept. `undefined`: nothing is known of former processes. */
  readonly directory: string | undefined;
  /** For how long jobs are kept, milliseconds. */
  readonly keepMs: number;
  readonly now: () => number;
}

const lineSchema = Compile(
  Type.Object({
    process: Type.String(),
    identity: Type.Object({
      pid: Type.Integer(),
      startTicks: Type.Integer(),
      pidNamespace: Type.String(),
      bootId: Type.String(),
      uid: Type.Integer(),
    }),
  }),
);

const fileName = 'publications';
const prefix: Key = ['publications'];
/** Of a number in the file, so that each one replaces the whole of the one before. */
const digits = 16;

/** Numbers publications, and remembers how far former processes came. */
export class PublicationLog {
  readonly #process = randomBytes(6).toString('hex');
  /** The last number that each former process may have sent. */
  readonly #lastSent: ReadonlyMap<string, number>;
  #file: NumberFile | undefined;
  #last = 0;
  #isClosed = false;

  private constructor(lastSent: ReadonlyMap<string, number>, directory: string | undefined) {
    this.#lastSent = lastSent;
    if (directory !== undefined) {
      this.#file = NumberFile.create(path.join(directory, fileName), this.#process);
    }
  }

  /** Reads what the last process left, and stores it. @throws StoreError */
  static async open(options: PublicationLogOptions): Promise<PublicationLog> {
    const { store, directory, keepMs, now } = options;
    const lastSent = new Map<string, number>();
    for await (const { key, value } of store.list(prefix)) {
      lastSent.set(String(key.at(-1)), Number(Buffer.from(value).toString()));
    }
    const left = directory && (await readLeftNumber(path.join(directory, fileName)));
    if (left) {
      const key = [...prefix, left.process];
      const value = Buffer.from(String(left.number));
      await store.write([{ op: 'put', key, value, expiresAt: now() + keepMs }]);
      lastSent.set(left.process, left.number);
    }
    return new PublicationLog(lastSent, directory);
  }

  /** Of the next publication. They are sent in this order, if at all. */
  next(): PublicationId {
    this.#last += 1;
    return { process: this.#process, number: this.#last };
  }

  /** To be called before the publication is sent. @throws MasterError ERR_MASTER_STOPPED: do not send it */
  noteSending({ number }: PublicationId): void {
    if (this.#isClosed) throw new MasterError('ERR_MASTER_STOPPED', 'the master is closed');
    if (this.#file?.write(number) === false) this.#file = undefined;
  }

  /** Whether the process that was to send it ended before it did. */
  wasNeverSent({ process, number }: PublicationId): boolean {
    const lastSent = this.#lastSent.get(process);
    return lastSent !== undefined && number > lastSent;
  }

  close(): void {
    this.#isClosed = true;
    this.#file?.close();
    this.#file = undefined;
  }
}

/** Names a process in its first line, and has a number in its second one. */
class NumberFile {
  readonly #path: string;
  readonly #descriptor: number;
  readonly #position: number;

  private constructor(path: string, descriptor: number, position: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#position = position;
  }

  /** A new file in place of the one before, which its process may still have open. */
  static create(path: string, process: string): NumberFile | undefined {
    const identity = ownIdentity();
    rmSync(path, { force: true });
    if (identity === undefined) return undefined;
    const line = `${JSON.stringify({ process, identity })}\n`;
    try {
      const file = new NumberFile(path, openSync(path, 'wx', 0o600), Buffer.byteLength(line));
      return file.#write(line, 0) && file.write(0) ? file : undefined;
    } catch (error) {
      if (isDiskFull(error)) return undefined;
      throw error;
    }
  }

  /** @returns false if there was no room; the file is gone then, and nothing false is left */
  write(number: number): boolean {
    return this.#write(String(number).padStart(digits), this.#position);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #write(text: string, position: number): boolean {
    try {
      if (writeSync(this.#descriptor, text, position) === Buffer.byteLength(text)) return true;
    } catch {
      // As if nothing had been written.
    }
    rmSync(this.#path, { force: true });
    this.close();
    return false;
  }
}

/** What a process that has ended left; `undefined`: there is none, or it is not certain. */
async function readLeftNumber(path: string): Promise<PublicationId | undefined> {
  const text = (await readTextIfPresent(path)) ?? '';
  const [line = '', number = ''] = text.split('\n');
  const left: unknown = tryParseJson(line);
  if (!lineSchema.Check(left) || number.length !== digits) return undefined;
  // protection: living-publisher
  if (!hasEnded(left.identity)) return undefined;
  return { process: left.process, number: Number(number) };
}

/** A published job, as it is kept [WIRE 15.4]. */
export interface JobRecord {
  readonly jid: string;
  /** A list: several functions in one job. */
  readonly fun: string | readonly string[];
  /**
   * Positional values, keywords last as a map with `__kwarg__` [WIRE 11.5]. For several functions
   * such a list for each.
   */
  readonly arg: readonly WireValue[];
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly user: string;
  /** Ids that it was published to. */
  readonly minions: readonly string[];
  readonly missing: readonly string[];
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  /** Whether a minion started it itself (`jid: req`). */
  readonly selfMade: boolean;
  /** Subscribers that were passed over because their queue was full. Absent: none. */
  readonly skipped?: number;
  /** Which minions it was published to together, in their order. Absent: not known. */
  readonly publications?: readonly JobPublication[];
  /** As it was published with the job. */
  readonly metadata?: WireMap;
  /** The minion that asked for it. Absent: an operator, or a service. */
  readonly requestedBy?: string;
}

/** A publication that brought a job to some of its minions. */
interface JobPublication extends PublicationId {
  /** How many: the next ones in the list of the job's minions. */
  readonly minions: number;
}

/** The name that a result is shown under: that of the minion, or of what it manages. */
export function returnerOf({ minion, resource }: Pick<JobReturn, 'minion' | 'resource'>): string {
  return resource ?? minion;
}

const nobody: ReadonlySet<string> = new Set();

/**
 * A job that the master still knows by heart: who it is for, who has answered. Thousands are known,
 * nearly all of them over: what only one under way needs is made when it does.
 */
export class Job {
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** Whether its returns are kept. Not so for the master's own `find_job` rounds. */
  readonly isKept: boolean;
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  readonly #minions: Set<string>;
  #answered: Set<string> | undefined;
  /** Resources that have answered, by the minions that manage them. */
  #resources: Map<string, Set<string>> | undefined;
  /** What minions return for in place of themselves. */
  #expected: Map<string, ReadonlySet<string>> | undefined;
  #running: ReadonlySet<string> = nobody;
  #listeners: Set<(result: JobReturn) => void> | undefined;

  constructor(
    record: Pick<JobRecord, 'jid' | 'fun' | 'minions' | 'publishedAt'>,
    options: { readonly isKept: boolean },
  ) {
    this.jid = record.jid;
    this.fun = record.fun;
    this.#minions = new Set(record.minions);
    this.isKept = options.isKept;
    this.publishedAt = record.publishedAt;
  }

  get minions(): ReadonlySet<string> {
    return this.#minions;
  }

  /** It is published to more minions under its jid: the next slice of a batch. */
  extend(minions: readonly string[]): void {
    for (const minion of minions) this.#minions.add(minion);
  }

  /** Whether a minion has answered, or a resource of it. */
  hasAnswered(minionId: string, resource?: string): boolean {
    if (resource === undefined) return this.#answered?.has(minionId) === true;
    return this.#resources?.get(minionId)?.has(resource) === true;
  }

  /** These minions return for these resources, in place of themselves. */
  expectResources(resources: ReadonlyMap<string, ReadonlySet<string>>): void {
    if (resources.size > 0) this.#expected = new Map([...(this.#expected ?? []), ...resources]);
  }

  /** What a minion returns for in place of itself; `undefined`: for itself. */
  expectedOf(minionId: string): ReadonlySet<string> | undefined {
    return this.#expected?.get(minionId);
  }

  /** Whether all that a minion returns has come: for itself, or for each expected resource. */
  isOver(minionId: string): boolean {
    if (this.hasAnswered(minionId)) return true;
    const expected = this.expectedOf(minionId);
    const answered = this.#resources?.get(minionId);
    if (expected === undefined || answered === undefined) return false;
    if (answered.size < expected.size) return false;
    return [...expected].every((id) => answered.has(id));
  }

  /** Whether any resource of a minion has answered. */
  hasResourceAnswer(minionId: string): boolean {
    return this.#resources?.has(minionId) === true;
  }

  /** How many have answered since it is known by heart. */
  get answered(): number {
    return this.#answered?.size ?? 0;
  }

  /** Minions that said last time they were asked that they are still at it. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /** Remembers which of the minions that were asked said that they are at it. */
  noteRunning(asked: readonly string[], running: ReadonlySet<string>): void {
    const others = new Set(this.#running);
    for (const minion of asked) others.delete(minion);
    this.#running = new Set([...others, ...running]);
  }

  /** Tells everybody who waits. A second return of the same minion or resource tells nobody. */
  answer(result: JobReturn): void {
    const { minion, resource } = result;
    if (this.hasAnswered(minion, resource)) return;
    if (resource === undefined) this.#note(minion);
    else this.#noteResource(minion, resource);
    for (const listener of this.#listeners ?? []) listener(result);
  }

  #note(minion: string): void {
    this.#answered ??= new Set();
    this.#answered.add(minion);
  }

  #noteResource(minion: string, resource: string): void {
    this.#resources ??= new Map();
    const answered = this.#resources.get(minion) ?? new Set<string>();
    this.#resources.set(minion, answered.add(resource));
  }

  /** Calls `listener` for each return from now on, until the given function is called. */
  onReturn(listener: (result: JobReturn) => void): () => void {
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => {
      this.#listeners?.delete(listener);
      if (this.#listeners?.size === 0) this.#listeners = undefined;
    };
  }

  get isWatched(): boolean {
    return this.#listeners !== undefined;
  }
}

/** The `salt/job/<jid>/new` event's data [WIRE 14.2]. */
export function newJobEvent(record: JobRecord): WireMap {
  return {
    jid: record.jid,
    tgt_type: record.tgtType,
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    user: record.user,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    minions: [...record.minions],
    missing: [...record.missing],
  };
}

// Encoding in the store: maps in Salt's local MessagePack dialect.

const Texts = Type.Array(Type.String());
const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

const recordSchema = Compile(
  Type.Object({
    jid: Type.String(),
    fun: Type.Union([Type.String(), Texts]),
    arg: Type.Array(AnyValue),
    tgt: Type.Union([Type.String(), Texts]),
    tgtType: Type.String(),
    user: Type.String(),
    minions: Texts,
    missing: Texts,
    publishedAt: Type.Number(),
    selfMade: Type.Boolean(),
    skipped: Type.Optional(Type.Number()),
    publications: Type.Optional(
      Type.Array(
        Type.Object({ process: Type.String(), number: Type.Number(), minions: Type.Number() }),
      ),
    ),
    metadata: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    requestedBy: Type.Optional(Type.String()),
  }),
);

const returnSchema = Compile(
  Type.Object({
    minion: Type.String(),
    resource: Type.Optional(Type.String()),
    fun: Type.Union([Type.String(), Texts]),
    return: AnyValue,
    retcode: AnyValue,
    success: AnyValue,
    out: Type.Optional(Type.String()),
    receivedAt: Type.Number(),
  }),
);

function packRecord({ publications, ...record }: JobRecord): Buffer {
  const map: WireMap = {
    ...record,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    minions: [...record.minions],
    missing: [...record.missing],
    ...(publications === undefined ? {} : { publications: publications.map((it) => ({ ...it })) }),
  };
  return packLocal(map);
}

/** @throws StoreError ERR_STORE_CORRUPT */
function unpackRecord(bytes: Uint8Array): JobRecord {
  const value = unpackLocal(bytes);
  if (recordSchema.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored job has an unknown form');
}

function packReturn(result: JobReturn): Buffer {
  const map: WireMap = {
    ...result,
    fun: typeof result.fun === 'string' ? result.fun : [...result.fun],
  };
  return packLocal(map);
}

/** A return, as members of a cluster tell each other; `undefined`: it is none. */
export function readReturn(value: WireValue | undefined): JobReturn | undefined {
  return returnSchema.Check(value) ? value : undefined;
}

/** @throws StoreError ERR_STORE_CORRUPT */
function unpackReturn(bytes: Uint8Array): JobReturn {
  const value = readReturn(unpackLocal(bytes));
  if (value !== undefined) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored return has an unknown form');
}

/**
 * Whether a minion's `retcode` says that it failed: not 0, or, where several functions ran, a map
 * with one that is not [salt cli/salt.py _get_retcode].
 */
export function isFailureCode(retcode: WireValue): boolean {
  if (retcode instanceof Map) return [...retcode.values()].some(isFailureCode);
  if (isWireMap(retcode)) return Object.values(retcode).some(isFailureCode);
  return retcode !== 0 && retcode !== false && retcode !== null;
}

// Events for failed states [WIRE 14.3].

const stateFunctions: ReadonlySet<WireValue> = new Set(['state.highstate', 'state.sls']);

interface NamedEvent {
  readonly tag: string;
  readonly data: WireMap;
}

/** Two events a failed state: Salt's old form, and the one under the job's tag. */
export function stateErrorEvents(load: WireMap, jid: string, minionId: string): NamedEvent[] {
  const { fun, retcode } = load;
  const results = load.return;
  if (!stateFunctions.has(fun ?? null) || !retcode || !isWireMap(results)) return [];
  return Object.entries(results).flatMap(([key, entry]) => {
    if (!isWireMap(entry) || entry.result !== false) return [];
    const parts = key.split('_|-');
    const failed = `${parts[0] ?? ''}.${parts.at(-1) ?? ''}`;
    const data: WireMap = {
      ...entry,
      jid,
      id: minionId,
      retcode,
      success: false,
      return: `Error: ${failed}`,
      fun: fun ?? null,
      user: load.user ?? null,
    };
    return [
      { tag: failed, data },
      { tag: tags.stateError(jid, minionId, String(fun)), data },
    ];
  });
}

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

/**
 * The jobs that were published and what came back, in the store for `keep_jobs_seconds`. What is
 * under way is remembered as well, so that a return costs no look-up.
 */
export class JobCache {
  readonly #store: Store;
  readonly #isOn: boolean;
  #keepMs: number;
  readonly #keepMarksMs: number;
  readonly #now: () => number;
  readonly #wasNeverSent: (publication: PublicationId) => boolean;
  readonly #mutex = new KeyedMutex();
  readonly #isShared: boolean;
  /** Returns that are being written by this master, in a cluster. */
  readonly #taking = new Set<string>();
  readonly #remembered = new Map<string, Job>();
  #rememberedMinions = 0;

  constructor(options: {
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
    /** Other members of a cluster keep jobs in the same store. Default: none do. */
    readonly isShared?: boolean;
  }) {
    this.#store = options.store;
    this.#isOn = options.isOn;
    this.#keepMs = options.keepMs;
    this.#keepMarksMs = options.keepMarksMs;
    this.#now = options.now;
    this.#wasNeverSent = options.wasNeverSent ?? (() => false);
    this.#isShared = options.isShared ?? false;
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
    const job = new Job(record, { isKept: this.#isOn });
    const stopListening = onReturn === undefined ? () => {} : job.onReturn(onReturn);
    if (this.#isShared) await this.#addOnce(job, record, also);
    else if (this.#isOn) await this.#store.write([this.#putRecord(record)]);
    return { job: this.remember(job), stopListening };
  }

  async #addOnce(job: Job, record: JobRecord, also: readonly Operation[]): Promise<void> {
    const { jid } = record;
    // Other members publish it, and take returns, before the write is acknowledged here.
    // protection: returns-before-acknowledgement
    if (!this.#remembered.has(jid)) this.remember(job);
    try {
      // protection: one-job-of-a-jid
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
  noteExtended({ key, value }: Pick<Entry, 'key' | 'value'>): void {
    const job = this.#remembered.get(key.at(-1) ?? '');
    job?.extend(unpackRecord(value).minions);
  }

  /** Whether this master is keeping a return of a minion right now. */
  isTaking(jid: string, minion: string): boolean {
    return this.#taking.has(takingName(jid, minion));
  }

  /** The minions of a job that it was certainly never sent to: its process ended before. */
  notSentTo(record: JobRecord): ReadonlySet<string> {
    return minionsOfPublications(record, this.#wasNeverSent);
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
      if (kept !== undefined) await this.#store.write([this.#putRecord(change(kept)), ...also]);
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
    const entry = await this.#store.get(jobKey(jid));
    if (entry === undefined) return undefined;
    return (
      this.#remembered.get(jid) ??
      this.remember(new Job(unpackRecord(entry.value), { isKept: true }))
    );
  }

  /**
   * Keeps a return, durable when it resolves.
   * @returns false if that of the minion, or of its resource, was kept already; it stays as it was
   */
  async addReturn(jid: string, result: JobReturn): Promise<boolean> {
    if (!this.#isShared) return this.#writeOnce([this.#putReturn(jid, result)]);
    const name = takingName(jid, result.minion);
    this.#taking.add(name);
    try {
      const isFirst = await this.#writeOnce([this.#putReturn(jid, result)]);
      // protection: returns-taken-at-once
      if (!isFirst) await this.#answerByKept(jid, result);
      return isFirst;
    } finally {
      this.#taking.delete(name);
    }
  }

  /** Another member took the same return, and this one did not look because it took it too. */
  async #answerByKept(jid: string, result: JobReturn): Promise<void> {
    const kept = await this.#store.get(returnKey(jid, result));
    if (kept !== undefined) this.#remembered.get(jid)?.answer(unpackReturn(kept.value));
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
    if (!this.#isOn) return this.addMark(result.minion, mark);
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
    return (await this.#store.get(markKey(minionId, mark))) !== undefined;
  }

  /** The job's description, if it is still kept. */
  async record(jid: string): Promise<JobRecord | undefined> {
    const entry = await this.#store.get(jobKey(jid));
    return entry === undefined ? undefined : unpackRecord(entry.value);
  }

  /** Jobs that are kept, the latest jid first. */
  async *records(limit: number): AsyncIterableIterator<JobRecord> {
    for await (const entry of this.#store.list(['jobs'], { reverse: true, limit })) {
      yield unpackRecord(entry.value);
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
    const since = this.#now() - idleTimeoutMs;
    const found = [...this.#remembered.values()].filter((job) => {
      if (!job.isKept || job.answered >= job.minions.size) return false;
      return job.isWatched || job.running.size > 0 || job.publishedAt > since;
    });
    return found.reverse().slice(0, maxUnderWay);
  }

  /** What has come back for a job. */
  async *returns(jid: string): AsyncIterableIterator<JobReturn> {
    for await (const entry of this.#store.list(['returns', jid])) yield unpackReturn(entry.value);
  }

  async #writeOnce(operations: readonly Operation[]): Promise<boolean> {
    try {
      await this.#store.write(operations);
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_REVISION') return false;
      throw error;
    }
  }

  #putRecord(record: JobRecord): Extract<Operation, { op: 'put' }> {
    const value = packRecord(record);
    return { op: 'put', key: jobKey(record.jid), value, expiresAt: this.#expiry() };
  }

  #putReturn(jid: string, result: JobReturn): Operation {
    const key = returnKey(jid, result);
    const value = packReturn(result);
    return { op: 'put', key, value, expiresAt: this.#expiry(), ifRevision: 0 };
  }

  #putMark(minionId: string, mark: string | undefined): Operation[] {
    if (mark === undefined) return [];
    const expiresAt = this.#now() + this.#keepMarksMs;
    const key = markKey(minionId, mark);
    return [{ op: 'put', key, value: new Uint8Array(0), expiresAt, ifRevision: 0 }];
  }

  #expiry(): number {
    return this.#now() + this.#keepMs;
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

// The slices of a stored job: minions that it was published to together.

interface Slice {
  readonly publication: JobPublication;
  readonly minions: readonly string[];
}

/** The minions of those publications of a job for which `isMeant` is true. */
function minionsOfPublications(
  record: JobRecord,
  isMeant: (publication: PublicationId) => boolean,
): ReadonlySet<string> {
  const meant = slicesOf(record).filter(({ publication }) => isMeant(publication));
  return new Set(meant.flatMap(({ minions }) => minions));
}

/** The job with one more slice, whose minions are in no other one then. */
export function withSlice(kept: JobRecord, slice: JobRecord): JobRecord {
  const added = new Set(slice.minions);
  const isLeft = (id: string): boolean => !added.has(id);
  const minions = [...kept.minions.filter(isLeft), ...slice.minions];
  const left = slicesOf(kept).map((it) => ({
    ...it.publication,
    minions: it.minions.filter(isLeft).length,
  }));
  const publications = [...left, ...(slice.publications ?? [])].filter((it) => it.minions > 0);
  return {
    ...kept,
    minions,
    missing: [...new Set([...kept.missing, ...slice.missing])],
    tgt: minions,
    tgtType: 'list',
    ...(kept.publications === undefined ? {} : { publications }),
  };
}

function slicesOf({ minions, publications = [] }: JobRecord): readonly Slice[] {
  let end = 0;
  return publications.map((publication) => {
    const start = end;
    end += publication.minions;
    return { publication, minions: minions.slice(start, end) };
  });
}

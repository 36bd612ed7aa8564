import { open } from 'node:fs/promises';
import { StoreError } from './errors.ts';
import type {
  Change,
  Entry,
  Key,
  ListOptions,
  Operation,
  Store,
  Stream,
  StreamConsumer,
  StreamRecord,
} from './store.ts';
import type { Row, RowTables, Tables } from './tables.ts';

// Keys as bytes. The segments' UTF-8, each ended by 00; inside a segment 00 is written 01 01 and
// 01 is written 01 02. So 00 only ever ends a segment, and the order of the bytes is the order
// that {@link Key} promises.

const maxSegmentBytes = 512;
const maxKeyBytes = 1024;
const endOfSegment = 0x00;
const escapeByte = 0x01;
/** Most segments: as many bytes as characters, none of them to be escaped. */
const plainSegment = /^[ -~]{1,512}$/;

/**
 * The bytes of a key of one segment or more.
 * @throws StoreError ERR_KEY
 */
export function encodeKey(key: Key): Buffer {
  if (key.length === 0) throw new StoreError('ERR_KEY', 'a key needs at least one segment');
  return encodePrefix(key);
}

/**
 * The bytes that every key under `prefix` begins with; none for the empty prefix.
 * @throws StoreError ERR_KEY
 */
function encodePrefix(prefix: Key): Buffer {
  const bytes = Buffer.from(prefix.map(encodeSegment).join(''));
  if (bytes.length > maxKeyBytes) {
    throw new StoreError('ERR_KEY', `a key of ${bytes.length} bytes; at most ${maxKeyBytes}`);
  }
  return bytes;
}

/** The first bytes behind all keys under an encoded prefix. */
function endOfPrefix(prefix: Buffer): Buffer {
  if (prefix.length === 0) return Buffer.of(0xff); // no UTF-8 begins so
  const end = Buffer.from(prefix);
  end[end.length - 1] = endOfSegment + 1;
  return end;
}

/** The first bytes behind an encoded key. */
function keySuccessor(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

/** The key of bytes made by {@link encodeKey}. */
export function decodeKey(bytes: Buffer): Key {
  const segments: string[] = [];
  let start = 0;
  for (let end = bytes.indexOf(0); end !== -1; end = bytes.indexOf(0, start)) {
    segments.push(decodeSegment(bytes.subarray(start, end)));
    start = end + 1;
  }
  return segments;
}

/** The segment as text whose UTF-8 is that of the key. */
function encodeSegment(segment: string): string {
  if (plainSegment.test(segment)) return `${segment}\0`;
  // Two different texts with lone surrogates would have the same UTF-8.
  if (/\p{Surrogate}/u.test(segment)) {
    throw new StoreError('ERR_KEY', 'a key segment with half a surrogate pair');
  }
  const length = Buffer.byteLength(segment);
  if (length === 0 || length > maxSegmentBytes) {
    throw new StoreError(
      'ERR_KEY',
      `a key segment of ${length} bytes; 1 to ${maxSegmentBytes} are possible`,
    );
  }
  const escaped = segment.replaceAll('\u0001', '\u0001\u0002').replaceAll('\0', '\u0001\u0001');
  return `${escaped}\0`;
}

function decodeSegment(bytes: Buffer): string {
  if (!bytes.includes(escapeByte)) return bytes.toString();
  const text: number[] = [];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.readUInt8(i);
    if (byte !== escapeByte) text.push(byte);
    else text.push(bytes.readUInt8(++i) - 1);
  }
  return Buffer.from(text).toString();
}

// How rows are laid out. Numbers are IEEE 754 doubles, big-endian: the bytes of those that are
// not negative sort as the numbers do.
//
// entries   key                      → revision (8)  expiresAt (8, infinite: never)  value
// expiries  expiresAt (8)  key       → nothing
// records   stream 00  sequence (8)  → appendedAt (8)  value

const numberBytes = 8;

/** An entry as it is stored. */
export interface EntryRecord {
  readonly revision: number;
  /** Milliseconds since 1970; `Infinity` if it is kept for ever. */
  readonly expiresAt: number;
  readonly value: Buffer;
}

/** A number as eight bytes that sort like it. */
export function packNumber(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes);
  bytes.writeDoubleBE(value);
  return bytes;
}

/** The number of {@link packNumber}; 0 when there is none. */
export function unpackNumber(bytes: Buffer | undefined): number {
  return bytes === undefined ? 0 : bytes.readDoubleBE();
}

/** The row of an entry, a copy. Its revision is known when it is written: see {@link setRevision}. */
function packEntry(value: Uint8Array, expiresAt: number): Buffer {
  const row = Buffer.allocUnsafe(2 * numberBytes + value.length);
  row.writeDoubleBE(0, 0);
  row.writeDoubleBE(expiresAt, numberBytes);
  row.set(value, 2 * numberBytes);
  return row;
}

function setRevision(row: Buffer, revision: number): void {
  row.writeDoubleBE(revision, 0);
}

/** The entry of a row. */
export function unpackEntry(bytes: Buffer): EntryRecord {
  return {
    revision: bytes.readDoubleBE(0),
    expiresAt: bytes.readDoubleBE(numberBytes),
    value: bytes.subarray(2 * numberBytes),
  };
}

/** The entry of a key as readers get it. */
function entryOf(key: Key, { value, revision, expiresAt }: EntryRecord): Entry {
  return expiresAt === Number.POSITIVE_INFINITY
    ? { key, value, revision }
    : { key, value, revision, expiresAt };
}

/** The key in `expiries` of an entry that ends. */
export function packExpiry(expiresAt: number, key: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes + key.length);
  bytes.writeDoubleBE(expiresAt);
  bytes.set(key, numberBytes);
  return bytes;
}

/** The encoded key of the entry that a row of `expiries` is about. */
function keyOfExpiry(expiry: Buffer): Buffer {
  return expiry.subarray(numberBytes);
}

/** The key in `records` of one record of a stream. */
function packRecordKey(stream: Buffer, sequence: number): Buffer {
  return Buffer.concat([stream, packNumber(sequence)]);
}

/** The row of a stream record. */
function packRecord(appendedAt: number, value: Uint8Array): Buffer {
  return Buffer.concat([packNumber(appendedAt), value]);
}

/** The stream record of a row. */
function unpackRecord({ key, value }: Row): StreamRecord {
  return {
    sequence: key.readDoubleBE(key.length - numberBytes),
    value: value.subarray(numberBytes),
    appendedAt: value.readDoubleBE(),
  };
}

// How the files of an embedded store are recognised, and what it knows of itself (table `meta`).

/** How the rows of this version are laid out, as described above. */
export const layoutVersion = 2;

/** Where the layout is written; absent in layout 0, and in a store that has just been made. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Where the revision of the last write is. */
export const revisionKey: Buffer = encodeKey(['revision']);

/**
 * LMDB ends the process when it is given a file that is not its own, so look first.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export async function checkSignature(file: string): Promise<void> {
  const signatureOffset = 24;
  const signature = 0xbeefc0de;
  const handle = await open(file);
  try {
    if ((await handle.stat()).size === 0) return;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, signatureOffset);
    if (bytesRead < 4 || buffer.readUInt32LE() !== signature) {
      throw new StoreError('ERR_STORE_CORRUPT', `${file} is not a database of this store`);
    }
  } finally {
    await handle.close();
  }
}

/**
 * The layout of a store, {@link layoutVersion} or an older one.
 * @throws StoreError ERR_STORE_VERSION for one of a later version
 */
/** Where a store that follows a log keeps what it knows of it. */
export const logStateKey: Buffer = encodeKey(['log', 'view']);

export function readLayout(tables: Tables, directory: string): number {
  const layout = unpackNumber(tables.meta.get(layoutKey));
  if (layout <= layoutVersion) return layout;
  throw new StoreError(
    'ERR_STORE_VERSION',
    `${directory} has layout ${layout}; this version knows layouts up to ${layoutVersion}`,
  );
}

/** A change as it was written: what nobody watches is not read. */
export type KeyedChange =
  | { readonly type: 'put'; readonly key: Buffer; readonly row: Buffer }
  | { readonly type: 'delete'; readonly key: Buffer; readonly revision: number };

const maxQueuedChanges = 10_000;

interface ChangeListener {
  readonly prefix: Buffer;
  readonly listener: (change: Change) => void;
}

/** Tells changes to those who watch, each with a bounded queue of its own. */
class ChangeFeed {
  readonly #watchers = new Set<Watcher>();
  readonly #listeners = new Set<ChangeListener>();

  /** Changes under the encoded prefix from this call on, until the signal or {@link end}. */
  watch(prefix: Buffer, signal: AbortSignal): AsyncIterable<Change> {
    const watcher = new Watcher(prefix, () => this.#watchers.delete(watcher));
    if (signal.aborted) {
      watcher.abort();
      return watcher;
    }
    this.#watchers.add(watcher);
    watcher.follow(signal);
    return watcher;
  }

  /** Calls the listener with each change under the encoded prefix, until the signal. */
  listen(prefix: Buffer, listener: (change: Change) => void, signal: AbortSignal): void {
    const entry = { prefix, listener };
    this.#listeners.add(entry);
    signal.addEventListener('abort', () => this.#listeners.delete(entry), { once: true });
  }

  /** Tells everybody whom it concerns. */
  publish(changes: readonly KeyedChange[]): void {
    for (const { prefix, listener } of this.#listeners) {
      for (const change of changes) {
        if (isBelow(prefix, change.key)) listener(toChange(change));
      }
    }
    for (const watcher of this.#watchers) {
      for (const change of changes) {
        if (watcher.concerns(change.key)) watcher.push(toChange(change));
      }
    }
  }

  /** Ends every watch behind its last change. */
  end(): void {
    for (const watcher of this.#watchers) watcher.end();
  }
}

function isBelow(prefix: Buffer, key: Buffer): boolean {
  return key.subarray(0, prefix.length).equals(prefix);
}

/** A copy: the tables may hold the row itself. */
function toChange(written: KeyedChange): Change {
  const key = decodeKey(written.key);
  if (written.type === 'delete') return { type: 'delete', key, revision: written.revision };
  return { type: 'put', entry: entryOf(key, unpackEntry(Buffer.from(written.row))) };
}

type WatchResolver = (result: IteratorResult<Change>) => void;

class Watcher implements AsyncIterableIterator<Change> {
  readonly #prefix: Buffer;
  readonly #leave: () => void;
  #queue: Change[] = [];
  #waiting: WatchResolver[] = [];
  #state: 'open' | 'ended' | 'overrun' = 'open';
  #stopFollowing = (): void => {};

  constructor(prefix: Buffer, leave: () => void) {
    this.#prefix = prefix;
    this.#leave = leave;
  }

  follow(signal: AbortSignal): void {
    const onAbort = (): void => this.abort();
    signal.addEventListener('abort', onAbort, { once: true });
    this.#stopFollowing = () => signal.removeEventListener('abort', onAbort);
  }

  concerns(key: Buffer): boolean {
    return isBelow(this.#prefix, key);
  }

  push(change: Change): void {
    if (this.#state !== 'open') return;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) waiting({ done: false, value: change });
    else if (this.#queue.length < maxQueuedChanges) this.#queue.push(change);
    else this.#finish('overrun');
  }

  end(): void {
    if (this.#state === 'open') this.#finish('ended', this.#queue);
  }

  abort(): void {
    this.#finish('ended');
  }

  next(): Promise<IteratorResult<Change>> {
    const change = this.#queue.shift();
    if (change !== undefined) return Promise.resolve({ done: false, value: change });
    if (this.#state === 'overrun') {
      this.#state = 'ended';
      return Promise.reject(
        new StoreError(
          'ERR_WATCH_OVERRUN',
          `a watcher fell more than ${maxQueuedChanges} changes behind`,
        ),
      );
    }
    if (this.#state === 'ended') return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  return(): Promise<IteratorResult<Change>> {
    this.abort();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #finish(state: 'ended' | 'overrun', rest: Change[] = []): void {
    this.#state = state;
    this.#queue = rest;
    this.#leave();
    this.#stopFollowing();
    for (const waiting of this.#waiting.splice(0)) waiting({ done: true, value: undefined });
  }
}

const rowsPerSweep = 1000;

/** Removes entries that have expired, at most a thousand. Resolves with how many. */
export async function sweepExpired(tables: Tables, now: number): Promise<number> {
  const range = { from: Buffer.alloc(0), to: packNumber(now), limit: rowsPerSweep };
  // Looked at first, so that an idle store writes nothing.
  if (tables.expiries.range({ ...range, limit: 1 }).length === 0) return 0;
  return await tables.transaction(() => removeExpired(tables, now));
}

/** The same inside a transaction. */
export function removeExpired(tables: RowTables, now: number): number {
  const range = { from: Buffer.alloc(0), to: packNumber(now), limit: rowsPerSweep };
  const rows = tables.expiries.range(range);
  for (const { key } of rows) {
    tables.entries.remove(keyOfExpiry(key));
    tables.expiries.remove(key);
  }
  return rows.length;
}

/** What a {@link Stream} is asked that is no {@link Operation}. */
export type StreamStep =
  | { readonly op: 'trim'; readonly stream: string; readonly sequence: number }
  | {
      readonly op: 'acknowledge';
      readonly stream: string;
      readonly consumer: string;
      readonly sequence: number;
    };

/** How a stream reaches the tables of its store. */
interface StreamAccess {
  read<T>(work: () => T): T;
  /** Resolves when the step is durable. */
  write(step: StreamStep): Promise<void>;
}

/** Does a step inside a transaction. */
export function applyStreamStep(tables: RowTables, step: StreamStep): void {
  if (step.op === 'trim') trimStream(tables, step);
  else acknowledge(tables, step);
}

function trimStream(
  { records }: RowTables,
  { stream, sequence }: StreamStep & { readonly op: 'trim' },
): void {
  const name = encodeKey([stream]);
  const range = { from: packRecordKey(name, 0), to: packRecordKey(name, sequence + 1) };
  for (const { key } of records.range(range)) records.remove(key);
}

function acknowledge(
  { meta }: RowTables,
  { stream, consumer, sequence }: StreamStep & { readonly op: 'acknowledge' },
): void {
  const position = consumerKey(stream, consumer);
  const head = unpackNumber(meta.get(streamHeadKey(stream)));
  const next = Math.min(sequence, head);
  if (next > unpackNumber(meta.get(position))) meta.put(position, packNumber(next));
}

/** Where the last sequence that a consumer acknowledged is kept. @throws StoreError ERR_KEY */
function consumerKey(stream: string, consumer: string): Buffer {
  return encodeKey(['consumer', stream, consumer]);
}

/** Where the number of the last record of a stream is kept. @throws StoreError ERR_KEY */
export function streamHeadKey(stream: string): Buffer {
  return encodeKey(['stream', stream]);
}

/** A {@link Stream} over the tables of a store. */
class TableStream implements Stream {
  readonly #name: string;
  readonly #key: Buffer;
  readonly #tables: Tables;
  readonly #access: StreamAccess;

  constructor(name: string, tables: Tables, access: StreamAccess) {
    this.#name = name;
    this.#key = encodeKey([name]);
    this.#tables = tables;
    this.#access = access;
  }

  async read(
    options: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<readonly StreamRecord[]> {
    const { after = 0, limit = Number.POSITIVE_INFINITY } = options;
    return this.#access.read(() => this.#records(after, limit));
  }

  consumer(name: string): StreamConsumer {
    const position = consumerKey(this.#name, name);
    return {
      fetch: async (limit) =>
        this.#access.read(() => {
          const after = unpackNumber(this.#tables.meta.get(position));
          return this.#records(after, limit);
        }),
      acknowledge: (sequence) =>
        this.#access.write({ op: 'acknowledge', stream: this.#name, consumer: name, sequence }),
    };
  }

  async trim(sequence: number): Promise<void> {
    await this.#access.write({ op: 'trim', stream: this.#name, sequence });
  }

  #records(after: number, limit: number): StreamRecord[] {
    const from = packRecordKey(this.#key, after + 1);
    const to = packRecordKey(this.#key, Number.POSITIVE_INFINITY);
    return this.#tables.records.range({ from, to, limit }).map(unpackRecord);
  }
}

const emptyBuffer = Buffer.alloc(0);

/** An {@link Operation} with its key encoded and its value copied. */
export type WriteStep =
  | {
      readonly op: 'put';
      readonly key: Buffer;
      /** But for its revision. */
      readonly row: Buffer;
      readonly expiresAt: number;
      readonly ifRevision: number | undefined;
    }
  | { readonly op: 'delete'; readonly key: Buffer; readonly ifRevision: number | undefined }
  | { readonly op: 'require'; readonly key: Buffer; readonly ifRevision: number }
  | { readonly op: 'delete-prefix'; readonly prefix: Buffer }
  | { readonly op: 'append'; readonly stream: string; readonly value: Buffer };

/** The write that steps belong to. */
interface WriteContext {
  readonly revision: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Makes an operation independent of the caller's memory.
 * @throws StoreError ERR_KEY
 */
function prepareStep(operation: Operation): WriteStep {
  switch (operation.op) {
    case 'put': {
      const { key, value, expiresAt = Number.POSITIVE_INFINITY, ifRevision } = operation;
      const row = packEntry(value, expiresAt);
      return { op: 'put', key: encodeKey(key), row, expiresAt, ifRevision };
    }
    case 'delete':
      return { op: 'delete', key: encodeKey(operation.key), ifRevision: operation.ifRevision };
    case 'require':
      return { op: 'require', key: encodeKey(operation.key), ifRevision: operation.ifRevision };
    case 'delete-prefix':
      return { op: 'delete-prefix', prefix: encodePrefix(operation.prefix) };
    case 'append':
      streamHeadKey(operation.stream);
      return { op: 'append', stream: operation.stream, value: Buffer.from(operation.value) };
  }
}

/** @throws StoreError ERR_REVISION */
function checkConditions(tables: RowTables, steps: readonly WriteStep[], now: number): void {
  for (const step of steps) {
    if (step.op === 'delete-prefix' || step.op === 'append') continue;
    if (step.ifRevision === undefined) continue;
    const record = find(tables, step.key);
    const revision = record === undefined || record.expiresAt <= now ? 0 : record.revision;
    if (revision !== step.ifRevision) {
      throw new StoreError(
        'ERR_REVISION',
        `the entry has revision ${revision}, the write is for ${step.ifRevision}`,
      );
    }
  }
}

/** A transaction that was done. */
export interface AppliedWrite {
  readonly revision: number;
  readonly changes: readonly KeyedChange[];
}

/**
 * Does the steps of a write inside a transaction, if its conditions hold.
 * @param now - milliseconds since 1970
 * @throws StoreError ERR_REVISION, before anything is written
 */
export function applyWrite(
  tables: RowTables,
  steps: readonly WriteStep[],
  now: number,
): AppliedWrite {
  checkConditions(tables, steps, now);
  const revision = unpackNumber(tables.meta.get(revisionKey)) + 1;
  tables.meta.put(revisionKey, packNumber(revision));
  return { revision, changes: applySteps(tables, steps, { revision, now }) };
}

/** Does the steps in their order, and tells what changed. */
function applySteps(
  tables: RowTables,
  steps: readonly WriteStep[],
  context: WriteContext,
): KeyedChange[] {
  return steps.flatMap((step) => applyStep(tables, step, context));
}

function applyStep(tables: RowTables, step: WriteStep, context: WriteContext): KeyedChange[] {
  switch (step.op) {
    case 'put':
      return [put(tables, step, context)];
    case 'delete':
      return remove(tables, step.key, context);
    case 'require':
      return [];
    case 'delete-prefix':
      return removePrefix(tables, step.prefix, context);
    case 'append':
      append(tables, step, context);
      return [];
  }
}

function put(
  tables: RowTables,
  { key, row, expiresAt }: WriteStep & { readonly op: 'put' },
  { revision }: WriteContext,
): KeyedChange {
  const previous = find(tables, key);
  if (previous !== undefined) forgetExpiry(tables, key, previous);
  setRevision(row, revision);
  tables.entries.put(key, row);
  if (expiresAt !== Number.POSITIVE_INFINITY)
    tables.expiries.put(packExpiry(expiresAt, key), emptyBuffer);
  return { type: 'put', key, row };
}

function remove(tables: RowTables, key: Buffer, context: WriteContext): KeyedChange[] {
  const record = find(tables, key);
  if (record === undefined) return [];
  tables.entries.remove(key);
  forgetExpiry(tables, key, record);
  if (record.expiresAt <= context.now) return [];
  return [{ type: 'delete', key, revision: context.revision }];
}

function removePrefix(tables: RowTables, prefix: Buffer, context: WriteContext): KeyedChange[] {
  const rows = tables.entries.range({ from: prefix, to: endOfPrefix(prefix) });
  return rows.flatMap(({ key }) => remove(tables, key, context));
}

function append(
  tables: RowTables,
  step: WriteStep & { readonly op: 'append' },
  { now }: WriteContext,
): void {
  const headKey = streamHeadKey(step.stream);
  const sequence = unpackNumber(tables.meta.get(headKey)) + 1;
  tables.meta.put(headKey, packNumber(sequence));
  const recordKey = packRecordKey(encodeKey([step.stream]), sequence);
  tables.records.put(recordKey, packRecord(now, step.value));
}

function find(tables: RowTables, key: Buffer): EntryRecord | undefined {
  const record = tables.entries.get(key);
  return record === undefined ? undefined : unpackEntry(record);
}

function forgetExpiry(tables: RowTables, key: Buffer, record: EntryRecord): void {
  if (record.expiresAt === Number.POSITIVE_INFINITY) return;
  tables.expiries.remove(packExpiry(record.expiresAt, key));
}

const rowsPerStep = 256;
const sweepIntervalMs = 1000;

/** A {@link Store} over any {@link Tables}. */
export class TableStore implements Store {
  readonly #tables: Tables;
  readonly #now: () => number;
  readonly #feed = new ChangeFeed();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #sweeper: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  /** @param sweeps - whether it removes expired entries by itself, and by its own clock */
  constructor(tables: Tables, now: () => number, sweeps = true) {
    this.#tables = tables;
    this.#now = now;
    if (sweeps) this.#sweeper = setInterval(() => this.#sweep(), sweepIntervalMs).unref();
  }

  async get(key: Key): Promise<Entry | undefined> {
    this.#refuseWhenClosed();
    const record = this.#tables.entries.get(encodeKey(key));
    if (record === undefined) return undefined;
    return this.#living(key, unpackEntry(record));
  }

  async *list(prefix: Key, options: ListOptions = {}): AsyncIterable<Entry> {
    const { after, reverse = false, limit = Number.POSITIVE_INFINITY } = options;
    const start = encodePrefix(prefix);
    let from = start;
    let to = endOfPrefix(start);
    const pass = (key: Buffer): void => {
      if (reverse) to = earlier(to, key);
      else from = later(from, keySuccessor(key));
    };
    if (after !== undefined) pass(encodeKey(after));
    let left = limit;
    while (left > 0) {
      this.#refuseWhenClosed();
      // In steps, so that a slow reader holds no snapshot of the database open.
      const step = Math.min(rowsPerStep, left);
      const rows = this.#tables.entries.range({ from, to, reverse, limit: step });
      for (const row of rows) {
        const entry = this.#living(decodeKey(row.key), unpackEntry(row.value));
        if (entry === undefined) continue;
        yield entry;
        left--;
        if (left <= 0) return;
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < step) return;
      pass(last.key);
    }
  }

  async write(operations: readonly Operation[]): Promise<number> {
    this.#refuseWhenClosed();
    const steps = operations.map(prepareStep);
    return await this.commit(steps);
  }

  /** Resolves with the revision when the steps are durable. @throws StoreError ERR_REVISION */
  protected async commit(steps: readonly WriteStep[]): Promise<number> {
    const { revision, changes } = await this.follow(
      this.#tables.transaction(() => applyWrite(this.#tables, steps, this.#now())),
    );
    this.publish(changes);
    return revision;
  }

  /** Resolves when the step is durable. */
  protected async commitStreamStep(step: StreamStep): Promise<void> {
    await this.follow(this.#tables.transaction(() => applyStreamStep(this.#tables, step)));
  }

  /** Tells watchers what was written. */
  protected publish(changes: readonly KeyedChange[]): void {
    this.#feed.publish(changes);
  }

  watch(prefix: Key, signal: AbortSignal): AsyncIterable<Change> {
    this.#refuseWhenClosed();
    return this.#feed.watch(encodePrefix(prefix), signal);
  }

  /**
   * Calls the listener with each change under the prefix, until the signal: before the write that
   * made it resolves. It must not throw.
   */
  onChange(prefix: Key, listener: (change: Change) => void, signal: AbortSignal): void {
    this.#refuseWhenClosed();
    this.#feed.listen(encodePrefix(prefix), listener, signal);
  }

  stream(name: string): Stream {
    return new TableStream(name, this.#tables, {
      read: (work) => {
        this.#refuseWhenClosed();
        return work();
      },
      write: (step) => {
        this.#refuseWhenClosed();
        return this.commitStreamStep(step);
      },
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  /** Runs what {@link close} has to wait for. */
  protected busy<T>(work: () => Promise<T>): Promise<T> {
    this.#refuseWhenClosed();
    return this.follow(work());
  }

  async #finish(): Promise<void> {
    clearInterval(this.#sweeper);
    await Promise.allSettled(this.#underWay);
    this.#feed.end();
    await this.#tables.close();
  }

  /** {@link close} waits for it. */
  protected async follow<T>(promise: Promise<T>): Promise<T> {
    this.#underWay.add(promise);
    try {
      return await promise;
    } finally {
      this.#underWay.delete(promise);
    }
  }

  #living(key: Key, record: EntryRecord): Entry | undefined {
    return record.expiresAt <= this.#now() ? undefined : entryOf(key, record);
  }

  /** @throws StoreError that nothing can be asked of the store any more */
  protected assertUsable(): void {}

  #refuseWhenClosed(): void {
    if (this.#closed !== undefined) {
      throw new StoreError('ERR_STORE_CLOSED', 'the store has been closed');
    }
    this.assertUsable();
  }

  #sweep(): void {
    // A sweep that fails is made again by the next tick; reads do not depend on it.
    this.follow(sweepExpired(this.#tables, this.#now())).catch(() => {});
  }
}

function earlier(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? a : b;
}

function later(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) > 0 ? a : b;
}

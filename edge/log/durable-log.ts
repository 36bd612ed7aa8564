/**
 * Log of a site, stored in rows of its master. Entries that are appended at the same time are
 * written together. If the log exceeds its maximum size, it drops the oldest entries of the class
 * with the lowest priority, and stores a marker in their place. If a minion uses more than an equal
 * share of a log that is three quarters full, its next entries are dropped instead.
 */

import { randomBytes } from 'node:crypto';
import Type from 'typebox';
import type { StateArea, StateOperation } from '#master';
import { packLocal, type WireMap } from '#minion-protocol';
import { Budget, Mutex } from '#runtime';
import { Bytes, defineRow } from '#store';
import { HybridClock } from '../facts/hlc.ts';
import { edgeLimits } from '../limits.ts';
import {
  type LogClass,
  logClasses,
  type NewLogEntry,
  type SiteLog,
  type WaitingEntries,
} from './log.ts';
import { compress, type SentItem } from './log-codec.ts';
import { maxBatchBytes } from './log-messages.ts';

const Count = Type.Integer({ minimum: 0 });

const entryRow = defineRow({
  name: 'entry of the log of a site',
  schema: Type.Object({
    ms: Count,
    count: Count,
    kind: Type.String(),
    value: Bytes,
    /**
     * Sequence number of the first dropped entry. Present only if the row is a marker in place of
     * dropped entries.
     */
    from: Type.Optional(Count),
    /**
     * Minion whose limit the entry counts towards. Absent if the entry counts towards no minion's
     * limit.
     */
    minion: Type.Optional(Type.String()),
  }),
});

/**
 * Row with the total size of the stored entries of one minion and class, in bytes. The key of the
 * row is `['log', 'minion', class, minion]`.
 */
const minionRow = defineRow({
  name: 'minion in the log of a site',
  schema: Type.Object({ bytes: Count }),
});

const minionsRoot = ['log', 'minion'];

const headRow = defineRow({
  name: 'head of the log of a site',
  schema: Type.Object({
    /** Sequence number that the next entry of the class gets. */
    next: Type.Integer({ minimum: 1 }),
    entries: Count,
    bytes: Count,
    dropped: Count,
    /** Number of markers in place of dropped entries. */
    markers: Count,
    /**
     * First sequence number of the marker that is the latest row of the class. 0 if the latest row
     * is no marker.
     */
    markedFrom: Count,
    /** Time of the first dropped entry of this marker, in milliseconds since 1970. */
    markedAt: Count,
    oldestAt: Type.Optional(Count),
    /** Time of the latest entry, in milliseconds since 1970. */
    ms: Count,
    count: Count,
  }),
});

/**
 * Counters for the log entries of one class (such as `alarm` or `signal`), with the fields of the
 * row `headRow`.
 */
interface Head {
  next: number;
  entries: number;
  bytes: number;
  dropped: number;
  markers: number;
  markedFrom: number;
  markedAt: number;
  oldestAt?: number;
  ms: number;
  count: number;
}

interface PendingEntry extends NewLogEntry {
  readonly packed: Uint8Array;
}

/** Item in the store: an entry, or a marker in place of dropped entries. */
type StoredItem = SentItem & { readonly minion?: string | undefined };

/** Entries and operations that are written in one transaction. */
interface PendingWrite {
  readonly entries: readonly PendingEntry[];
  readonly operations: readonly StateOperation[];
  resolve(): void;
  reject(error: unknown): void;
}

/** Maximum number of calls of `append` in one write. */
const maxWriteEntries = 256;

/** Maximum total size of the entries in one write, in bytes. */
const maxWriteBytes = 262_144;

/** Maximum number of rows that the log reads at a time when it drops or removes entries. */
const rowsAtATime = 256;

/** Assumed size of a row without its value, in bytes. */
const rowOverhead = 64;

/** Part of the log that is reserved for minions that use at most an equal share of the log. */
const reservedPart = 1 / 4;

/** Maximum size of the value of an entry before compression, in bytes. */
const maxValueBytes = 524_288;

/**
 * Maximum size of a field in an entry that is too large for a batch, in bytes. Each field of the
 * entry that exceeds this size is replaced by the text `VALUE_TRIMMED`.
 */
const maxTrimmedField = 1024;

export interface DurableLogOptions {
  readonly state: StateArea;
  readonly now: () => number;
  /** Maximum total size of the entries that wait for the centre, in bytes. */
  readonly maxBytes: number;
}

export class DurableLog implements SiteLog {
  /** Random id of the log. */
  #id: string;
  readonly clock: HybridClock;
  readonly #state: StateArea;
  readonly #maxBytes: number;
  readonly #heads: Readonly<Record<LogClass, Head>>;
  readonly #ofMinions: Budget;
  readonly #pending: PendingWrite[] = [];
  readonly #mutex = new Mutex();
  #isFlushing = false;
  /** Function that the log calls after it has appended entries. */
  onAppended: () => void = () => {};

  private constructor(
    id: string,
    { state, now, maxBytes }: DurableLogOptions,
    heads: Readonly<Record<LogClass, Head>>,
    ofMinions: ReadonlyMap<string, number>,
  ) {
    this.#id = id;
    this.#state = state;
    this.#maxBytes = Math.max(maxWriteBytes, maxBytes - maxWriteBytes);
    this.#heads = heads;
    const limit = edgeLimits.loggedBytes;
    this.#ofMinions = new Budget(limit, { ...limit, total: this.#maxBytes });
    for (const [minion, bytes] of ofMinions) this.#ofMinions.take(minion, bytes);
    let floor = { ms: 0, count: 0 };
    for (const { ms, count } of Object.values(heads)) {
      if (ms > floor.ms || (ms === floor.ms && count > floor.count)) floor = { ms, count };
    }
    this.clock = new HybridClock(now, floor);
  }

  /**
   * Opens the log in the store of the site, and creates it if it does not exist.
   * @throws StoreError if the store cannot be read or written
   */
  static async open(options: DurableLogOptions): Promise<DurableLog> {
    const { state } = options;
    const heads: Partial<Record<LogClass, Head>> = {};
    for (const each of logClasses) {
      const entry = await state.get(['log', 'head', each]);
      heads[each] = entry === undefined ? emptyHead() : { ...headRow.decode(entry) };
    }
    const known = await state.get(['log', 'id']);
    const id = known === undefined ? newId() : Buffer.from(known.value).toString('latin1');
    if (known === undefined) await state.write([idOperation(id)]);
    const ofMinions = new Map<string, number>();
    for await (const entry of state.list(minionsRoot)) {
      ofMinions.set(entry.key.slice(-2).join(' '), minionRow.decode(entry).bytes);
    }
    // All classes were read above.
    return new DurableLog(id, options, heads as Record<LogClass, Head>, ofMinions);
  }

  get id(): string {
    return this.#id;
  }

  get waiting(): Readonly<Record<LogClass, WaitingEntries>> {
    const waitingOf = (name: LogClass): WaitingEntries => {
      const { entries, bytes, oldestAt, dropped } = this.#heads[name];
      return { entries, bytes, oldestAt, dropped };
    };
    return {
      alarm: waitingOf('alarm'),
      signal: waitingOf('signal'),
      return: waitingOf('return'),
      fact: waitingOf('fact'),
    };
  }

  /** Whether a class has anything to send: entries, or a marker in place of dropped entries. */
  hasWork(name: LogClass): boolean {
    const { entries, markers } = this.#heads[name];
    return entries > 0 || markers > 0;
  }

  append(entry: NewLogEntry): Promise<void> {
    return this.appendTogether([entry], []);
  }

  appendTogether(
    given: readonly NewLogEntry[],
    operations: readonly StateOperation[],
  ): Promise<void> {
    const entries = given.map((it) => ({ ...it, packed: packBounded(it.value) }));
    return new Promise((resolve, reject) => {
      this.#pending.push({ entries, operations, resolve, reject });
      if (this.#isFlushing) return;
      this.#isFlushing = true;
      // `append` rejects if its entry was not written, so ignore errors here.
      void this.#flush();
    });
  }

  /**
   * Returns the oldest entries of a class, with markers in place of dropped entries. Returns at
   * most `maxItems` entries and markers, of at most `maxBytes` together. The first one is always
   * returned, even if it is larger.
   */
  async read(name: LogClass, maxBytes: number, maxItems: number): Promise<readonly SentItem[]> {
    const items: SentItem[] = [];
    let bytes = 0;
    const { entries, bytes: allBytes } = this.#heads[name];
    // A list reads several rows at a time, so it should not read more rows than are needed.
    const expected = Math.ceil((maxBytes * Math.max(1, entries)) / Math.max(1, allBytes));
    for await (const { key, value } of this.#rows(name, Math.min(maxItems, expected + 1))) {
      bytes += value.length;
      if (items.length > 0 && bytes > maxBytes) break;
      items.push(itemOf(key, value));
    }
    return items;
  }

  /**
   * Removes the entries that the centre has stored.
   * @param sequence - sequence number of the last stored entry
   */
  async acknowledge(name: LogClass, sequence: number): Promise<void> {
    await this.#mutex.run(async () => {
      const head = this.#heads[name];
      if (sequence >= head.next) {
        // The centre has later entries than this site, because the site's store was restored from a
        // backup.
        await this.#renew();
        return;
      }
      for (;;) {
        const next: Head = { ...head };
        const operations: StateOperation[] = [];
        const ofMinions = new Map<string, number>();
        let isLast = true;
        const first = head.next - head.entries;
        const rows = Math.max(0, sequence - first + 1) + head.markers;
        for await (const { key, value } of this.#rows(name, Math.min(rowsAtATime, rows + 1))) {
          const item = itemOf(key, value);
          if ('from' in item ? item.to > sequence : item.sequence > sequence) {
            isLast = true;
            break;
          }
          isLast = false;
          operations.push({ op: 'delete', key });
          forget(next, ofMinions, name, item, value.length);
        }
        if (operations.length === 0) return;
        await this.#writeHead(name, next, operations, ofMinions);
        if (isLast) return;
      }
    });
  }

  /** Gives the log a new id. The centre then accepts its entries from any sequence number. */
  async renew(): Promise<void> {
    await this.#mutex.run(() => this.#renew());
  }

  async #renew(): Promise<void> {
    const id = newId();
    await this.#state.write([idOperation(id)]);
    this.#id = id;
  }

  async #flush(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#takePending();
      try {
        await this.#mutex.run(async () => {
          await this.#write(batch);
          await this.#drop();
        });
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      this.onAppended();
    }
    // No `await` since the last check, so no entry can have been added in between.
    this.#isFlushing = false;
  }

  #takePending(): readonly PendingWrite[] {
    let count = 0;
    let bytes = 0;
    for (const { entries } of this.#pending) {
      bytes += entries.reduce((sum, { packed }) => sum + packed.length, 0);
      if (count > 0 && (count === maxWriteEntries || bytes > maxWriteBytes)) break;
      count += 1;
    }
    return this.#pending.splice(0, count);
  }

  async #write(batch: readonly PendingWrite[]): Promise<void> {
    const operations: StateOperation[] = batch.flatMap((it) => it.operations);
    const changed = new Map<LogClass, Head>();
    const ofMinions = new Map<string, number>();
    let bytes = this.#bytes;
    for (const entry of batch.flatMap((it) => it.entries)) {
      const { class: name, kind, minion } = entry;
      const head = changed.get(name) ?? { ...this.#heads[name] };
      changed.set(name, head);
      const { ms, count } = this.clock.next();
      const row = this.#fit(entry, bytes, ofMinions, (value) =>
        entryRow.encode({ ms, count, kind, value, ...(minion === undefined ? {} : { minion }) }),
      );
      if (head.entries === 0 && head.markers === 0) head.oldestAt = ms;
      head.ms = ms;
      head.count = count;
      if (row === undefined) {
        operations.push(...dropNext(name, head));
        continue;
      }
      operations.push({ op: 'put', key: keyOf(name, head.next), value: row });
      head.next += 1;
      head.markedFrom = 0;
      head.entries += 1;
      head.bytes += row.length + rowOverhead;
      bytes += row.length + rowOverhead;
    }
    for (const [name, head] of changed) operations.push(headOperation(name, head));
    await this.#state.write([...operations, ...this.#minionOperations(ofMinions)]);
    for (const [name, head] of changed) Object.assign(this.#heads[name], head);
    this.#countMinions(ofMinions);
  }

  /** Total size of the stored entries, in bytes. */
  get #bytes(): number {
    return Object.values(this.#heads).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Encodes an entry. If the log has too little space for the entry of this minion, replaces the
   * large fields of the entry by `VALUE_TRIMMED`. Returns `undefined` if only the reserved part of
   * the log is left, and the entries of this minion use more than an equal share of the log. The
   * entry is then dropped, so that it does not displace entries of others.
   * @param bytes - size of the log, including the entries of the current write
   * @param ofMinions - for each minion and class, the number of bytes that the current write adds.
   * The size of the entry is added here
   */
  #fit(
    { class: name, minion, packed, value }: PendingEntry,
    bytes: number,
    ofMinions: Map<string, number>,
    encode: (packed: Uint8Array) => Uint8Array,
  ): Uint8Array | undefined {
    const whole = encode(packed);
    if (minion === undefined) return whole;
    const owner = ownerOf(name, minion);
    const earlier = ofMinions.get(owner) ?? 0;
    const hasPlace = this.#ofMinions.hasPlace(owner, earlier + whole.length + rowOverhead);
    const row = hasPlace ? whole : encode(packTrimmed(value));
    const isFull = bytes + row.length + rowOverhead > this.#maxBytes * (1 - reservedPart);
    // One share is for entries that count towards no minion.
    const share = this.#maxBytes / (this.#ofMinions.owners + 1);
    if (isFull && this.#ofMinions.heldBy(owner) + earlier > share) return undefined;
    ofMinions.set(owner, earlier + row.length + rowOverhead);
    return row;
  }

  #minionOperations(changes: ReadonlyMap<string, number>): readonly StateOperation[] {
    return [...changes].map(([owner, change]) => {
      const space = owner.indexOf(' ');
      const key = [...minionsRoot, owner.slice(0, space), owner.slice(space + 1)];
      const bytes = this.#ofMinions.heldBy(owner) + change;
      return bytes > 0
        ? { op: 'put', key, value: minionRow.encode({ bytes }) }
        : { op: 'delete', key };
    });
  }

  #countMinions(changes: ReadonlyMap<string, number>): void {
    for (const [owner, change] of changes) {
      if (change > 0) this.#ofMinions.take(owner, change);
      else this.#ofMinions.release(owner, -change);
    }
  }

  /**
   * Drops the oldest entries until the log no longer exceeds its maximum size. Begins with the
   * entries of the class with the lowest priority.
   */
  async #drop(): Promise<void> {
    for (;;) {
      let excess = this.#bytes - this.#maxBytes;
      if (excess <= 0) return;
      const name = logClasses.findLast((it) => this.#heads[it].entries > 0);
      if (name === undefined) return;
      const head: Head = { ...this.#heads[name] };
      const operations: StateOperation[] = [];
      const ofMinions = new Map<string, number>();
      let marker: Marker | undefined;
      for await (const { key, value } of this.#rows(name, rowsAtATime)) {
        const item = itemOf(key, value);
        if (!('from' in item) && excess <= 0) break;
        operations.push({ op: 'delete', key });
        const dropped =
          'from' in item ? item : { from: item.sequence, to: item.sequence, oldestAt: item.ms };
        marker = { ...dropped, ...marker, to: dropped.to };
        if (!('from' in item)) {
          excess -= value.length + rowOverhead;
          head.dropped += 1;
        }
        forget(head, ofMinions, name, item, value.length);
      }
      if (marker === undefined) return;
      operations.push(markerOperation(name, marker));
      head.markers += 1;
      if (marker.to === head.next - 1) {
        head.markedFrom = marker.from;
        head.markedAt = marker.oldestAt;
      }
      head.oldestAt = marker.oldestAt;
      await this.#writeHead(name, head, operations, ofMinions);
    }
  }

  #rows(name: LogClass, limit: number): ReturnType<StateArea['list']> {
    return this.#state.list(['log', 'entry', name], { limit });
  }

  async #writeHead(
    name: LogClass,
    head: Head,
    operations: readonly StateOperation[],
    ofMinions: ReadonlyMap<string, number>,
  ): Promise<void> {
    if (head.entries === 0 && head.markers === 0) delete head.oldestAt;
    await this.#state.write([
      ...operations,
      headOperation(name, head),
      ...this.#minionOperations(ofMinions),
    ]);
    this.#countMinions(ofMinions);
    const known = this.#heads[name];
    if (head.oldestAt === undefined) delete known.oldestAt;
    Object.assign(known, head);
  }
}

function keyOf(name: LogClass, sequence: number): readonly string[] {
  return ['log', 'entry', name, String(sequence).padStart(16, '0')];
}

function itemOf(key: readonly string[], value: Uint8Array): StoredItem {
  const sequence = Number(key.at(-1));
  const row = entryRow.decode({ key, value });
  if (row.from !== undefined) return { from: row.from, to: sequence, oldestAt: row.ms };
  const { ms, count, kind, minion } = row;
  return { sequence, ms, count, kind, value: row.value, minion };
}

/** Marker in place of dropped entries. */
type Marker = Extract<SentItem, { readonly from: number }>;

function markerOperation(name: LogClass, { from, to, oldestAt }: Marker): StateOperation {
  const row = { ms: oldestAt, count: 0, kind: '', value: Buffer.alloc(0), from };
  return { op: 'put', key: keyOf(name, to), value: entryRow.encode(row) };
}

/**
 * Drops an entry before it is stored. Returns operations that store a marker in its place. If the
 * latest row of the class is a marker, the new marker replaces it.
 */
function dropNext(name: LogClass, head: Head): readonly StateOperation[] {
  const to = head.next;
  head.next += 1;
  head.dropped += 1;
  const isFirst = head.markedFrom === 0;
  if (isFirst) {
    head.markedFrom = to;
    head.markedAt = head.ms;
    head.markers += 1;
  }
  const put = markerOperation(name, { from: head.markedFrom, to, oldestAt: head.markedAt });
  return isFirst ? [put] : [{ op: 'delete', key: keyOf(name, to - 1) }, put];
}

/** Owner of the bytes of a minion's entries in one class. Names of classes contain no space. */
function ownerOf(name: LogClass, minion: string): string {
  return `${name} ${minion}`;
}

/**
 * Updates the counters of a class of log entries after one entry or marker was removed.
 * @param ofMinions - receives the change of the stored bytes, by minion and class. An entry without
 * a minion is not counted there
 */
function forget(
  head: Head,
  ofMinions: Map<string, number>,
  name: LogClass,
  item: StoredItem,
  bytes: number,
): void {
  if ('from' in item) {
    head.markers -= 1;
    if (item.to === head.next - 1) head.markedFrom = 0;
    return;
  }
  head.entries -= 1;
  head.bytes -= bytes + rowOverhead;
  head.oldestAt = item.ms;
  if (item.minion === undefined) return;
  const owner = ownerOf(name, item.minion);
  ofMinions.set(owner, (ofMinions.get(owner) ?? 0) - bytes - rowOverhead);
}

function headOperation(name: LogClass, head: Head): StateOperation {
  return { op: 'put', key: ['log', 'head', name], value: headRow.encode(head) };
}

function idOperation(id: string): StateOperation {
  return { op: 'put', key: ['log', 'id'], value: Buffer.from(id, 'latin1') };
}

function newId(): string {
  return randomBytes(12).toString('base64url');
}

function emptyHead(): Head {
  return {
    next: 1,
    entries: 0,
    bytes: 0,
    dropped: 0,
    markers: 0,
    markedFrom: 0,
    markedAt: 0,
    ms: 0,
    count: 0,
  };
}

/**
 * Packs a value. If it is too large for a batch, replaces its large fields by `VALUE_TRIMMED`, as
 * Salt does.
 */
function packBounded(value: WireMap): Uint8Array {
  const whole = packLocal(value);
  return fits(whole) ? whole : packTrimmed(value);
}

function packTrimmed(value: WireMap): Uint8Array {
  const trimmed: WireMap = {};
  for (const [name, field] of Object.entries(value)) {
    const isSmall = packLocal(field).length <= maxTrimmedField;
    trimmed[name] = isSmall ? field : 'VALUE_TRIMMED';
  }
  return packLocal(trimmed);
}

function fits(bytes: Uint8Array): boolean {
  if (bytes.length < maxBatchBytes / 2) return true;
  return bytes.length <= maxValueBytes && compress(bytes).length < maxBatchBytes / 2;
}

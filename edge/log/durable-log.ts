/**
 * Log of a site, stored in rows of its master. Entries that are appended at the same time are
 * written together. If the log exceeds its maximum size, it drops the oldest entries of the class
 * with the lowest priority, and stores a marker in their place.
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

/** Row with the total size of the stored entries of one minion, in bytes. */
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
    hasMarker: Type.Boolean(),
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
  hasMarker: boolean;
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
      ofMinions.set(entry.key.at(-1) ?? '', minionRow.decode(entry).bytes);
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
    const { entries, hasMarker } = this.#heads[name];
    return entries > 0 || hasMarker;
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
        const rows = Math.max(0, sequence - first + 1) + (head.hasMarker ? 1 : 0);
        for await (const { key, value } of this.#rows(name, Math.min(rowsAtATime, rows + 1))) {
          const item = itemOf(key, value);
          if ('from' in item ? item.to > sequence : item.sequence > sequence) {
            isLast = true;
            break;
          }
          isLast = false;
          operations.push({ op: 'delete', key });
          forget(next, ofMinions, item, value.length);
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
    for (const entry of batch.flatMap((it) => it.entries)) {
      const { class: name, kind, minion } = entry;
      const head = changed.get(name) ?? { ...this.#heads[name] };
      changed.set(name, head);
      const { ms, count } = this.clock.next();
      const row = this.#fit(entry, ofMinions, (value) =>
        entryRow.encode({ ms, count, kind, value, ...(minion === undefined ? {} : { minion }) }),
      );
      operations.push({ op: 'put', key: keyOf(name, head.next), value: row });
      if (head.entries === 0 && !head.hasMarker) head.oldestAt = ms;
      head.next += 1;
      head.entries += 1;
      head.bytes += row.length + rowOverhead;
      head.ms = ms;
      head.count = count;
    }
    for (const [name, head] of changed) operations.push(headOperation(name, head));
    await this.#state.write([...operations, ...this.#minionOperations(ofMinions)]);
    for (const [name, head] of changed) Object.assign(this.#heads[name], head);
    this.#countMinions(ofMinions);
  }

  /**
   * Encodes an entry. If the log has too little space for the entry of this minion, replaces the
   * large fields of the entry by `VALUE_TRIMMED`.
   * @param ofMinions - for each minion, the number of bytes that the current write adds. The size
   * of the entry is added here
   */
  #fit(
    { minion, packed, value }: PendingEntry,
    ofMinions: Map<string, number>,
    encode: (packed: Uint8Array) => Uint8Array,
  ): Uint8Array {
    const whole = encode(packed);
    if (minion === undefined) return whole;
    const earlier = ofMinions.get(minion) ?? 0;
    const hasPlace = this.#ofMinions.hasPlace(minion, earlier + whole.length + rowOverhead);
    const row = hasPlace ? whole : encode(packTrimmed(value));
    add(ofMinions, minion, row.length + rowOverhead);
    return row;
  }

  #minionOperations(changes: ReadonlyMap<string, number>): readonly StateOperation[] {
    return [...changes].map(([minion, change]) => {
      const key = [...minionsRoot, minion];
      const bytes = this.#ofMinions.heldBy(minion) + change;
      return bytes > 0
        ? { op: 'put', key, value: minionRow.encode({ bytes }) }
        : { op: 'delete', key };
    });
  }

  #countMinions(changes: ReadonlyMap<string, number>): void {
    for (const [minion, change] of changes) {
      if (change > 0) this.#ofMinions.take(minion, change);
      else this.#ofMinions.release(minion, -change);
    }
  }

  /**
   * Drops the oldest entries until the log no longer exceeds its maximum size. Begins with the
   * entries of the class with the lowest priority.
   */
  async #drop(): Promise<void> {
    for (;;) {
      let excess = -this.#maxBytes;
      for (const { bytes } of Object.values(this.#heads)) excess += bytes;
      if (excess <= 0) return;
      const name = logClasses.findLast((it) => this.#heads[it].entries > 0);
      if (name === undefined) return;
      const head: Head = { ...this.#heads[name] };
      const operations: StateOperation[] = [];
      const ofMinions = new Map<string, number>();
      let marker: { from: number; to: number; oldestAt: number } | undefined;
      for await (const { key, value } of this.#rows(name, rowsAtATime)) {
        const item = itemOf(key, value);
        if (!('from' in item) && excess <= 0) break;
        operations.push({ op: 'delete', key });
        if ('from' in item) marker = { ...item };
        else {
          excess -= value.length + rowOverhead;
          head.dropped += 1;
          marker = {
            from: marker?.from ?? item.sequence,
            to: item.sequence,
            oldestAt: marker?.oldestAt ?? item.ms,
          };
        }
        forget(head, ofMinions, item, value.length);
      }
      if (marker === undefined) return;
      const { from, to, oldestAt } = marker;
      const row = { ms: oldestAt, count: 0, kind: '', value: Buffer.alloc(0), from };
      operations.push({ op: 'put', key: keyOf(name, to), value: entryRow.encode(row) });
      await this.#writeHead(name, { ...head, hasMarker: true, oldestAt }, operations, ofMinions);
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
    if (head.entries === 0 && !head.hasMarker) delete head.oldestAt;
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

/** Adds bytes to the total of a minion in `amounts`. Does nothing if `minion` is `undefined`. */
function add(amounts: Map<string, number>, minion: string | undefined, bytes: number): void {
  if (minion !== undefined) amounts.set(minion, (amounts.get(minion) ?? 0) + bytes);
}

/**
 * Updates the counters of a class of log entries after one entry or marker was removed.
 * @param ofMinions - receives the change of the stored bytes, by minion. An entry without a minion
 * is not counted there
 */
function forget(head: Head, ofMinions: Map<string, number>, item: StoredItem, bytes: number): void {
  if ('from' in item) {
    head.hasMarker = false;
    return;
  }
  head.entries -= 1;
  head.bytes -= bytes + rowOverhead;
  head.oldestAt = item.ms;
  add(ofMinions, item.minion, -bytes - rowOverhead);
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
  return { next: 1, entries: 0, bytes: 0, dropped: 0, hasMarker: false, ms: 0, count: 0 };
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

/**
 * Log of a site, stored in rows of its master. Entries that are appended at the same time are
 * written together. If the log exceeds its maximum size, it drops the oldest entries of the class
 * with the lowest priority, and stores a marker in their place. If a minion uses more than its part
 * of the full log, entries of this minion are dropped first. Entries of minions that use less than
 * their reserve are not dropped, and neither are those of the site itself.
 */

import { randomBytes } from 'node:crypto';
import Type from 'typebox';
import type { StateArea, StateOperation } from '#master';
import { packLocal, type WireMap } from '#minion-protocol';
import { Mutex, unlimitedSteps, WorkBudget } from '#runtime';
import { Bytes, defineRow, type Key } from '#store';
import { HybridClock } from '../facts/hlc.ts';
import {
  type LogClass,
  logClasses,
  type NewLogEntry,
  type SiteLog,
  type WaitingEntries,
} from './log.ts';
import {
  compress,
  isMarker,
  lastOf,
  type SentEntry,
  type SentItem,
  type SentMarker,
} from './log-codec.ts';
import { maxBatchBytes } from './log-messages.ts';
import {
  type BytesByClass,
  type ExcessShare,
  LogShares,
  type MinionShare,
  ShareChanges,
  type Surplus,
  totalOf,
} from './log-shares.ts';

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
    /** Minion that has caused the entry. Absent if no minion has caused it. */
    minion: Type.Optional(Type.String()),
  }),
});

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
    oldestAt: Type.Optional(Count),
    /** Time of the latest entry, in milliseconds since 1970. */
    ms: Count,
    count: Count,
  }),
  // Version 1 had one marker at most.
  upgrades: [({ hasMarker, ...old }) => ({ ...old, markers: hasMarker === true ? 1 : 0 })],
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
  oldestAt?: number;
  ms: number;
  count: number;
}

interface PendingEntry extends NewLogEntry {
  readonly packed: Uint8Array;
}

/** Adjacent rows that one marker replaces. */
interface DroppedRun {
  readonly from: number;
  to: number;
  readonly oldestAt: number;
  /** Keys of the rows. */
  readonly keys: Key[];
  /** Number of the rows that are markers. */
  markers: number;
}

/** Selection of the entries to drop. */
interface DropChoice {
  /** Sequence number after which the search begins. `undefined`: with the oldest entry. */
  readonly after: number | undefined;
  /**
   * Whether to drop an entry. `undefined` ends the search.
   * @param minion - minion that has caused the entry, or `undefined`
   * @param changes - bytes of the entries that were dropped before
   */
  drops(minion: string | undefined, changes: ShareChanges): boolean | undefined;
}

/** Result of dropping entries. */
interface Dropped {
  /** Number of rows that were read. */
  readonly rows: number;
  /** Number of dropped entries. */
  readonly entries: number;
  /** Sequence number of the last entry that was read and kept. `undefined` if none was kept. */
  readonly keptTo: number | undefined;
}

type StoredEntry = SentEntry & { readonly minion?: string | undefined };

/** Item in the store: an entry, or a marker in place of dropped entries. */
type StoredItem = StoredEntry | SentMarker;

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

/**
 * Maximum number of rows that a write reads to find the oldest entries of a minion. If it finds too
 * few, the next write continues the search.
 */
const searchedRows = 2048;

/** Part of the log that is reserved for entries that are appended during such a search. */
const sparePart = 1 / 32;

/** Assumed size of a row without its value, in bytes. */
const rowOverhead = 64;

/** Assumed size of a marker, in bytes. */
const markerBytes = 128;

/** Number of steps that a {@link WorkBudget} counts for reading a row. */
const stepsOfRow = 500;

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
  /** Called when entries of a minion were dropped because it uses more than its part of the log. */
  readonly onExcess?: (minion: string) => void;
}

export class DurableLog implements SiteLog {
  /** Random id of the log. */
  #id: string;
  readonly clock: HybridClock;
  readonly #state: StateArea;
  readonly #maxBytes: number;
  readonly #heads: Readonly<Record<LogClass, Head>>;
  readonly #shares: LogShares;
  /** The field `searched` of a {@link MinionShare} for the entries of the site itself. */
  readonly #ownSearched: Partial<Record<LogClass, number>> = {};
  readonly #onExcess: (minion: string) => void;
  readonly #pending: PendingWrite[] = [];
  readonly #mutex = new Mutex();
  #isFlushing = false;
  /** Function that the log calls after it has appended entries. */
  onAppended: () => void = () => {};

  private constructor(
    id: string,
    { state, now, maxBytes, onExcess = () => {} }: DurableLogOptions,
    heads: Readonly<Record<LogClass, Head>>,
    shares: LogShares,
  ) {
    this.#id = id;
    this.#state = state;
    this.#maxBytes = maxBytes;
    this.#onExcess = onExcess;
    this.#heads = heads;
    this.#shares = shares;
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
    const named = await state.get(['log', 'id']);
    const id = named === undefined ? newId() : Buffer.from(named.value).toString('latin1');
    if (named === undefined) await state.write([idOperation(id)]);
    // Each write may exceed this maximum, and the next writes too while entries are searched.
    const most = Math.max(maxWriteBytes, options.maxBytes - maxWriteBytes);
    const maxBytes = most / (1 + sparePart);
    const shares = await LogShares.read(state, maxBytes);
    // All classes were read above.
    const known = heads as Record<LogClass, Head>;
    return new DurableLog(id, { ...options, maxBytes }, known, shares);
  }

  get id(): string {
    return this.#id;
  }

  get waiting(): Readonly<Record<LogClass, WaitingEntries>> {
    const waitingOf = (name: LogClass): WaitingEntries => {
      const head = this.#heads[name];
      const { entries, oldestAt, dropped } = head;
      return { entries, bytes: sizeOf(head), oldestAt, dropped };
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
    const { entries, markers, bytes: allBytes } = this.#heads[name];
    // A list reads several rows at a time, so it should not read more rows than are needed.
    const expected = Math.ceil((maxBytes * Math.max(1, entries + markers)) / Math.max(1, allBytes));
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
        const changes = new ShareChanges();
        let isLast = true;
        const first = head.next - head.entries;
        const rows = Math.max(0, sequence - first + 1) + head.markers;
        // Only without dropped entries between others, the number of rows is known.
        const limit = head.markers > 1 ? rowsAtATime : Math.min(rowsAtATime, rows + 1);
        for await (const { key, value } of this.#rows(name, limit)) {
          const item = itemOf(key, value);
          if (lastOf(item) > sequence) {
            isLast = true;
            break;
          }
          isLast = false;
          operations.push({ op: 'delete', key });
          if (isMarker(item)) next.markers -= 1;
          else {
            forget(next, changes, name, item, value.length);
            next.oldestAt = item.ms;
          }
        }
        if (operations.length === 0) return;
        await this.#writeHead(name, next, operations, changes);
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
    const changes = new ShareChanges();
    for (const entry of batch.flatMap((it) => it.entries)) {
      const { class: name, kind, minion } = entry;
      const head = changed.get(name) ?? { ...this.#heads[name] };
      changed.set(name, head);
      const { ms, count } = this.clock.next();
      const row = this.#fit(entry, changes, (value) =>
        entryRow.encode({ ms, count, kind, value, ...(minion === undefined ? {} : { minion }) }),
      );
      operations.push({ op: 'put', key: keyOf(name, head.next), value: row });
      if (head.entries === 0 && head.markers === 0) head.oldestAt = ms;
      head.next += 1;
      head.entries += 1;
      head.bytes += row.length + rowOverhead;
      changes.add(minion, name, row.length + rowOverhead);
      head.ms = ms;
      head.count = count;
    }
    for (const [name, head] of changed) operations.push(headOperation(name, head));
    await this.#state.write([...operations, ...this.#shares.operations(changes)]);
    for (const [name, head] of changed) Object.assign(this.#heads[name], head);
    this.#shares.count(changes);
  }

  /**
   * Encodes an entry. If the log has too little space for returns of this minion, replaces the
   * large fields of the entry by `VALUE_TRIMMED`.
   * @param changes - bytes that the current write adds
   */
  #fit(
    { class: name, minion, packed, value }: PendingEntry,
    changes: ShareChanges,
    encode: (packed: Uint8Array) => Uint8Array,
  ): Uint8Array {
    const whole = encode(packed);
    if (minion === undefined || name !== 'return') return whole;
    const hasPlace = this.#shares.hasPlace(minion, whole.length + rowOverhead, changes);
    return hasPlace ? whole : encode(packTrimmed(value));
  }

  /** Size of all rows, in bytes. */
  get #size(): number {
    return Object.values(this.#heads).reduce((sum, head) => sum + sizeOf(head), 0);
  }

  /**
   * Drops entries until the log no longer exceeds its maximum size. If it takes too long to find the
   * entries to drop, leaves the rest to the next write, unless the spare part of the log is used up.
   */
  async #drop(): Promise<void> {
    const budget = new WorkBudget(unlimitedSteps);
    let searched = 0;
    for (;;) {
      const excess = this.#size - this.#maxBytes;
      if (excess <= 0) return;
      const drop = this.#chooseDrop(excess);
      if (drop === undefined) {
        // Markers use the space that the reserves leave free.
        const name = logClasses.findLast((it) => this.#heads[it].entries > 0);
        if (name === undefined) return;
        await this.#dropRows(name, excess);
        continue;
      }
      if (searched >= searchedRows && excess <= this.#maxBytes * sparePart) return;
      const rows = await drop();
      searched += rows;
      await budget.giveWayAfter(rows * stepsOfRow);
    }
  }

  /**
   * Returns a function that drops entries of minions that use too much of the log. The function
   * returns the number of rows that it has read. Returns `undefined` if there are no such minions.
   * @param excess - number of bytes by which the log exceeds its maximum size
   */
  #chooseDrop(excess: number): (() => Promise<number>) | undefined {
    const largest = this.#shares.largest();
    if (largest !== undefined) {
      return () => this.#dropOf(largest, Math.min(excess, largest.excess));
    }
    const surplus = this.#shares.surplus(this.#bytes);
    return surplus && (() => this.#dropSurplus(surplus, excess));
  }

  /** Size of the entries of each class, in bytes. */
  get #bytes(): BytesByClass {
    const { alarm, signal, return: returns, fact } = this.#heads;
    return {
      alarm: alarm.bytes,
      signal: signal.bytes,
      return: returns.bytes,
      fact: fact.bytes,
    };
  }

  /**
   * Drops the oldest entries of a class whose owners use more than their reserves. Ends when the
   * owner in `surplus` uses no more than its reserve. Reads at most {@link rowsAtATime} rows.
   * @returns the number of rows that were read
   */
  async #dropSurplus({ share, name }: Surplus, excess: number): Promise<number> {
    const after = (share?.searched ?? this.#ownSearched)[name];
    const own = totalOf(this.#shares.ownOf(this.#bytes));
    const exceeds = (minion: string | undefined, changes: ShareChanges): boolean =>
      this.#shares.exceedsReserve(minion, own, changes);
    const { rows, entries, keptTo } = await this.#dropChosen(share, name, excess, {
      after,
      drops: (minion, changes) =>
        exceeds(share?.minion, changes) ? exceeds(minion, changes) : undefined,
    });
    if (keptTo !== undefined) this.#shares.noteSearched(name, after, keptTo);
    if (share === undefined && entries === 0 && rows < rowsAtATime) {
      // The class has only entries of minions, contrary to the counters.
      const dropped = await this.#dropRows(name, excess);
      return dropped.rows;
    }
    return rows;
  }

  /**
   * Drops the oldest entries of a minion that uses more than its part of the log. Reads at most
   * {@link rowsAtATime} rows, so it may drop too little, or nothing.
   * @returns the number of rows that were read
   */
  async #dropOf({ share, name }: ExcessShare, excess: number): Promise<number> {
    const { minion, searched } = share;
    const { rows, entries } = await this.#dropChosen(share, name, excess, {
      after: searched[name],
      drops: (owner) => owner === minion,
    });
    if (entries > 0) this.#onExcess(minion);
    return rows;
  }

  /**
   * Drops entries that `choice` selects, among them the oldest ones of an owner.
   * @param share - minion whose entries are searched. `undefined`: those of the site itself
   */
  async #dropChosen(
    share: MinionShare | undefined,
    name: LogClass,
    excess: number,
    choice: DropChoice,
  ): Promise<Dropped> {
    const dropped = await this.#dropRows(name, excess, choice);
    const { rows, entries, keptTo } = dropped;
    const searched = share?.searched ?? this.#ownSearched;
    if (keptTo !== undefined) searched[name] = keptTo;
    if (share !== undefined && entries === 0 && rows < rowsAtATime) {
      // The class has no entries of this minion, contrary to the counters.
      const changes = new ShareChanges();
      changes.add(share.minion, name, -share.bytes[name]);
      await this.#state.write(this.#shares.operations(changes));
      this.#shares.count(changes);
    }
    return dropped;
  }

  /**
   * Drops the oldest entries of a class, and stores markers in their place. A marker that adjoins
   * another one is united with it. Reads at most {@link rowsAtATime} rows.
   * @param excess - number of bytes to drop
   * @param choice - entries to drop. Default: all
   */
  async #dropRows(
    name: LogClass,
    excess: number,
    choice: DropChoice = { after: undefined, drops: () => true },
  ): Promise<Dropped> {
    const head: Head = { ...this.#heads[name] };
    const operations: StateOperation[] = [];
    const changes = new ShareChanges();
    let run: DroppedRun | undefined;
    let rows = 0;
    let entries = 0;
    let keptTo: number | undefined;
    const endRun = (): void => {
      if (run !== undefined && (run.keys.length > 1 || run.markers === 0)) {
        for (const key of run.keys) operations.push({ op: 'delete', key });
        operations.push(markerOperation(name, run));
        head.markers += 1 - run.markers;
      }
      run = undefined;
    };
    let left = excess;
    for await (const { key, value } of this.#rows(name, rowsAtATime, choice.after)) {
      const item = itemOf(key, value);
      if (!isMarker(item)) {
        const isDropped = left > 0 ? choice.drops(item.minion, changes) : undefined;
        if (isDropped === undefined) break;
        if (!isDropped) {
          endRun();
          rows += 1;
          keptTo = item.sequence;
          continue;
        }
        forget(head, changes, name, item, value.length);
        head.dropped += 1;
        entries += 1;
        left -= value.length + rowOverhead;
      }
      rows += 1;
      const [from, oldestAt] = isMarker(item)
        ? [item.from, item.oldestAt]
        : [item.sequence, item.ms];
      run ??= { from, to: 0, oldestAt, keys: [], markers: 0 };
      // The class begins with the marker.
      if (rows === 1 && choice.after === undefined) head.oldestAt = oldestAt;
      run.to = lastOf(item);
      run.keys.push(key);
      if (isMarker(item)) run.markers += 1;
    }
    endRun();
    if (operations.length > 0) await this.#writeHead(name, head, operations, changes);
    return { rows, entries, keptTo };
  }

  #rows(name: LogClass, limit: number, after?: number): ReturnType<StateArea['list']> {
    const place = after === undefined ? {} : { after: keyOf(name, after) };
    return this.#state.list(['log', 'entry', name], { limit, ...place });
  }

  async #writeHead(
    name: LogClass,
    head: Head,
    operations: readonly StateOperation[],
    changes: ShareChanges,
  ): Promise<void> {
    if (head.entries === 0 && head.markers === 0) delete head.oldestAt;
    await this.#state.write([
      ...operations,
      headOperation(name, head),
      ...this.#shares.operations(changes),
    ]);
    this.#shares.count(changes);
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

/** Updates the counters of a class of log entries after an entry was removed. */
function forget(
  head: Head,
  changes: ShareChanges,
  name: LogClass,
  { minion }: StoredEntry,
  bytes: number,
): void {
  head.entries -= 1;
  head.bytes -= bytes + rowOverhead;
  changes.add(minion, name, -bytes - rowOverhead);
}

/** Returns the size of the rows of a class, in bytes. */
function sizeOf({ bytes, markers }: Head): number {
  return bytes + markers * markerBytes;
}

function markerOperation(name: LogClass, { from, to, oldestAt }: SentMarker): StateOperation {
  const row = { ms: oldestAt, count: 0, kind: '', value: Buffer.alloc(0), from };
  return { op: 'put', key: keyOf(name, to), value: entryRow.encode(row) };
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
  return { next: 1, entries: 0, bytes: 0, dropped: 0, markers: 0, ms: 0, count: 0 };
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

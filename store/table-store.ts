import { ChangeFeed, type KeyedChange } from './change-feed.ts';
import { StoreError } from './errors.ts';
import { decodeKey, encodeKey, encodePrefix, endOfPrefix, successor } from './key.ts';
import { revisionKey } from './layout.ts';
import { type EntryRecord, entryOf, packNumber, unpackEntry, unpackNumber } from './row-format.ts';
import type { Change, Entry, Key, ListOptions, Operation, Store, Stream } from './store.ts';
import { sweepExpired } from './sweep.ts';
import { TableStream } from './table-stream.ts';
import type { Tables } from './tables.ts';
import { applySteps, checkConditions, prepareStep, type Step } from './write-steps.ts';

const rowsPerStep = 256;
const sweepIntervalMs = 1000;

/** A {@link Store} over any {@link Tables}. */
export class TableStore implements Store {
  readonly #tables: Tables;
  readonly #now: () => number;
  readonly #feed = new ChangeFeed();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #sweeper: NodeJS.Timeout;
  #closed: Promise<void> | undefined;

  constructor(tables: Tables, now: () => number) {
    this.#tables = tables;
    this.#now = now;
    this.#sweeper = setInterval(() => this.#sweep(), sweepIntervalMs).unref();
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
      else from = later(from, successor(key));
    };
    if (after !== undefined) pass(encodeKey(after));
    let left = limit;
    while (left > 0) {
      this.#refuseWhenClosed();
      // In steps, so that a slow reader holds no snapshot of the database open.
      const rows = this.#tables.entries.range({ from, to, reverse, limit: rowsPerStep });
      for (const row of rows) {
        const entry = this.#living(decodeKey(row.key), unpackEntry(row.value));
        if (entry === undefined) continue;
        yield entry;
        left--;
        if (left <= 0) return;
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < rowsPerStep) return;
      pass(last.key);
    }
  }

  async write(operations: readonly Operation[]): Promise<number> {
    this.#refuseWhenClosed();
    const steps = operations.map(prepareStep);
    const { revision, changes } = await this.#follow(
      this.#tables.transaction(() => this.#apply(steps)),
    );
    this.#feed.publish(changes);
    return revision;
  }

  watch(prefix: Key, signal: AbortSignal): AsyncIterable<Change> {
    this.#refuseWhenClosed();
    return this.#feed.watch(encodePrefix(prefix), signal);
  }

  stream(name: string): Stream {
    return new TableStream(name, this.#tables, {
      read: (work) => {
        this.#refuseWhenClosed();
        return work();
      },
      write: (work) => {
        this.#refuseWhenClosed();
        return this.#follow(this.#tables.transaction(work));
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
    return this.#follow(work());
  }

  async #finish(): Promise<void> {
    clearInterval(this.#sweeper);
    await Promise.allSettled(this.#underWay);
    this.#feed.end();
    await this.#tables.close();
  }

  /** @throws StoreError ERR_REVISION */
  #apply(steps: readonly Step[]): { revision: number; changes: KeyedChange[] } {
    const now = this.#now();
    checkConditions(this.#tables, steps, now);
    const revision = unpackNumber(this.#tables.meta.get(revisionKey)) + 1;
    this.#tables.meta.put(revisionKey, packNumber(revision));
    return { revision, changes: applySteps(this.#tables, steps, { revision, now }) };
  }

  async #follow<T>(promise: Promise<T>): Promise<T> {
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

  #refuseWhenClosed(): void {
    if (this.#closed !== undefined) {
      throw new StoreError('ERR_STORE_CLOSED', 'the store has been closed');
    }
  }

  #sweep(): void {
    // A sweep that fails is made again by the next tick; reads do not depend on it.
    this.#follow(sweepExpired(this.#tables, this.#now())).catch(() => {});
  }
}

function earlier(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? a : b;
}

function later(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) > 0 ? a : b;
}

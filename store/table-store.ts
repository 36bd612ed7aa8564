import { ChangeFeed, type KeyedChange } from './change-feed.ts';
import { StoreError } from './errors.ts';
import { sweepExpired } from './expiry.ts';
import { decodeKey, encodeKey, encodePrefix, endOfPrefix, keySuccessor } from './key-bytes.ts';
import { type EntryRecord, entryOf, unpackEntry } from './row-layout.ts';
import type { Change, Entry, Key, ListOptions, Operation, Store, Stream } from './store.ts';
import { applyStreamStep, type StreamStep, TableStream } from './table-stream.ts';
import type { Tables } from './tables.ts';
import { applyWrite, prepareStep, type WriteStep } from './write-steps.ts';

/**
 * Number of rows that a list reads in its first step. It is small, because many readers need only
 * the first few rows, and rows may be large. Later steps read up to {@link largestStep} rows.
 */
const firstStep = 8;
const largestStep = 256;

/**
 * Total size of the values, in bytes, after which one step of reading a list ends. The next step
 * continues with the next row.
 */
const maxStepBytes = 1_048_576;
const sweepIntervalMs = 1000;

/** A {@link Store} on top of any {@link Tables}. */
export class TableStore implements Store {
  readonly #tables: Tables;
  readonly #now: () => number;
  readonly #feed = new ChangeFeed();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #sweeper: NodeJS.Timeout | undefined;
  #closed: Promise<void> | undefined;

  /**
   * @param now - clock for expiry, in milliseconds since 1970
   * @param sweeps - whether the store deletes expired entries from time to time. Without it, they
   * remain in the tables, but reads do not return them
   */
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
    for (let most = firstStep; left > 0; most = Math.min(most * 4, largestStep)) {
      this.#refuseWhenClosed();
      // The list is read in steps, so that a slow reader does not keep a database snapshot open.
      const step = Math.min(most, left);
      const range = { from, to, reverse, limit: step, maxBytes: maxStepBytes };
      const rows = this.#tables.entries.range(range);
      let bytes = 0;
      for (const row of rows) {
        bytes += row.value.length;
        const entry = this.#living(decodeKey(row.key), unpackEntry(row.value));
        if (entry === undefined) continue;
        yield entry;
        left--;
        if (left <= 0) return;
      }
      const last = rows.at(-1);
      if (last === undefined || (rows.length < step && bytes < maxStepBytes)) return;
      pass(last.key);
    }
  }

  async *keys(prefix: Key): AsyncIterable<Key> {
    let from = encodePrefix(prefix);
    const to = endOfPrefix(from);
    for (;;) {
      this.#refuseWhenClosed();
      // The keys are read in steps for the same reason as the entries of a list.
      const keys = this.#tables.entries.keys({ from, to, limit: largestStep });
      yield* keys.map(decodeKey);
      const last = keys.at(-1);
      if (last === undefined || keys.length < largestStep) return;
      from = keySuccessor(last);
    }
  }

  async write(operations: readonly Operation[]): Promise<number> {
    this.#refuseWhenClosed();
    const steps = operations.map(prepareStep);
    return await this.commit(steps);
  }

  /**
   * Applies the steps of a write. Resolves with the revision when the changes are durable.
   * @throws StoreError ERR_REVISION
   */
  protected async commit(steps: readonly WriteStep[]): Promise<number> {
    const { revision, changes } = await this.follow(
      this.#tables.transaction(() => applyWrite(this.#tables, steps, this.#now())),
    );
    this.publish(changes);
    return revision;
  }

  /** Trims a stream, or acknowledges its records. Resolves when the change is durable. */
  protected async commitStreamStep(step: StreamStep): Promise<void> {
    await this.follow(this.#tables.transaction(() => applyStreamStep(this.#tables, step)));
  }

  /** Sends changes to watchers. */
  protected publish(changes: readonly KeyedChange[]): void {
    this.#feed.publish(changes);
  }

  watch(prefix: Key, signal: AbortSignal): AsyncIterable<Change> {
    this.#refuseWhenClosed();
    return this.#feed.watch(encodePrefix(prefix), signal);
  }

  /**
   * Calls the listener with each change under the prefix until the signal is aborted. The listener
   * is called before the promise of the write resolves. The listener must not throw.
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

  /** Runs work. {@link close} waits until the work has ended. */
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

  /** Makes {@link close} wait for the promise. */
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

  /**
   * Checks that the store can be used. Subclasses override it.
   * @throws StoreError if the store cannot be used
   */
  protected assertUsable(): void {}

  #refuseWhenClosed(): void {
    if (this.#closed !== undefined) {
      throw new StoreError('ERR_STORE_CLOSED', 'the store has been closed');
    }
    this.assertUsable();
  }

  #sweep(): void {
    // The next tick repeats a failed sweep. Reads ignore expired entries in any case.
    this.follow(sweepExpired(this.#tables, this.#now())).catch(() => {});
  }
}

function earlier(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? a : b;
}

function later(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) > 0 ? a : b;
}

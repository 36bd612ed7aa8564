/**
 * Interface of durable storage. Data must be stored before it is acknowledged. The interface offers
 * ordered keys, revisions, watches, streams and expiry. It does not depend on masters or minions.
 * An engine may be an embedded database or a cluster.
 */

import { StoreError } from './errors.ts';

/**
 * A path of text segments, for example `['jobs', jid, 'returns', id]`. A segment is any well-formed
 * text of 1 to 512 bytes in UTF-8. Engines encode keys so that the end of each segment is known. A
 * key has at most 1,024 bytes. Each segment counts one byte more than its length, and U+0000 and
 * U+0001 count two bytes. Keys are ordered segment by segment, by the bytes of their
 * UTF-8 form. A prefix sorts before the keys that begin with it.
 */
export type Key = readonly string[];

/** Key in the store, with its value, revision and expiry time. */
export interface Entry {
  readonly key: Key;
  readonly value: Uint8Array;
  /**
   * Revision of the {@link Store.write} that wrote the entry. Each write has a higher revision than
   * the previous write. A revision is never reused.
   */
  readonly revision: number;
  /** Expiry time in milliseconds since 1970. Reads return no entry from this time on. */
  readonly expiresAt?: number;
}

/**
 * One operation of {@link Store.write}. All conditions of a write are checked before its first
 * operation. Then the operations are performed in order.
 */
export type Operation =
  | {
      readonly op: 'put';
      readonly key: Key;
      readonly value: Uint8Array;
      /** Time at which the entry expires, in milliseconds since 1970. Default: never. */
      readonly expiresAt?: number;
      /** Revision that the entry must have. `0` requires that the entry does not exist. */
      readonly ifRevision?: number;
    }
  | { readonly op: 'delete'; readonly key: Key; readonly ifRevision?: number }
  /** Checks the revision of an entry that the write does not change, such as a lease. */
  | { readonly op: 'require'; readonly key: Key; readonly ifRevision: number }
  /** Deletes every key that begins with these segments. */
  | { readonly op: 'delete-prefix'; readonly prefix: Key }
  | { readonly op: 'append'; readonly stream: string; readonly value: Uint8Array };

/** A change reported by {@link Store.watch}. Expiry is not reported. */
export type Change =
  | { readonly type: 'put'; readonly entry: Entry }
  | { readonly type: 'delete'; readonly key: Key; readonly revision: number };

/** Options of {@link Store.list}. */
export interface ListOptions {
  /** Key after which the list starts. */
  readonly after?: Key;
  /** Maximum number of entries to list. Default: no limit. */
  readonly limit?: number;
  /**
   * Whether to list from the last entry to the first. `after` is then the upper bound. Default:
   * `false`.
   */
  readonly reverse?: boolean;
}

/** A record of a stream. */
export interface StreamRecord {
  /** Position of the record: 1, 2, 3, … without gaps, in the order of appending. */
  readonly sequence: number;
  readonly value: Uint8Array;
  /** Time of appending, in milliseconds since 1970. */
  readonly appendedAt: number;
}

/**
 * A named reader of a stream. It continues after the last record that it acknowledged, even after a
 * restart.
 */
export interface StreamConsumer {
  /** Returns the oldest records after the last acknowledged record, at most `limit`. */
  fetch(limit: number): Promise<readonly StreamRecord[]>;
  /**
   * Acknowledges all records up to and including `sequence`. The acknowledgement is durable when
   * the promise resolves. A lower number than before has no effect. A number beyond the end
   * acknowledges all records.
   */
  acknowledge(sequence: number): Promise<void>;
}

/** An append-only sequence of records. Append with an {@link Operation}. */
export interface Stream {
  /** Returns the oldest records after `after` (default: the beginning), at most `limit`. */
  read(options?: {
    readonly after?: number;
    readonly limit?: number;
  }): Promise<readonly StreamRecord[]>;
  consumer(name: string): StreamConsumer;
  /** Deletes all records up to and including `sequence`. Their numbers are not reused. */
  trim(sequence: number): Promise<void>;
}

/**
 * A store. Methods may be called until `close` is called.
 * @throws StoreError ERR_KEY for an invalid key, prefix or name, ERR_STORE_CLOSED,
 * ERR_STORE_UNAVAILABLE
 */
export interface Store {
  get(key: Key): Promise<Entry | undefined>;
  /**
   * Lists entries whose key begins with `prefix`, in key order. If the store changes during the
   * iteration, the result may be inconsistent.
   */
  list(prefix: Key, options?: ListOptions): AsyncIterable<Entry>;
  /**
   * Lists the keys that begin with `prefix`, in order, without reading the values. Expired entries
   * are included until the store deletes them.
   */
  keys(prefix: Key): AsyncIterable<Key>;
  /**
   * Performs all operations or none. Resolves with the revision of the write once the changes are
   * on disk. Values are copied when the method is called.
   * @throws StoreError ERR_REVISION if an `ifRevision` does not match; nothing was written
   */
  write(operations: readonly Operation[]): Promise<number>;
  /**
   * Watches changes to keys under `prefix` that are made through this store object after the call,
   * in revision order. The iteration ends when the signal is aborted or the store is closed. A
   * reader that falls more than 10,000 changes behind gets a StoreError ERR_WATCH_OVERRUN.
   */
  watch(prefix: Key, signal: AbortSignal): AsyncIterable<Change>;
  stream(name: string): Stream;
  /** Waits for pending writes and closes the store. May be called more than once. */
  close(): Promise<void>;
}

/**
 * Maximum size of one partial write, in bytes. In a cluster, a write must not exceed NATS's
 * `max_payload`, 1 MiB by default.
 */
const partBytes = 262_144;
/** Maximum overhead of an operation besides its key and value, in bytes. */
const stepBytes = 64;

/**
 * Writes operations in several parts, each small enough for any engine. The whole write is not
 * atomic.
 */
export async function writeInParts(
  store: Pick<Store, 'write'>,
  operations: readonly Operation[],
): Promise<void> {
  let part: Operation[] = [];
  let bytes = 0;
  for (const operation of operations) {
    const size = sizeOf(operation);
    if (part.length > 0 && bytes + size > partBytes) {
      await store.write(part);
      part = [];
      bytes = 0;
    }
    part.push(operation);
    bytes += size;
  }
  if (part.length > 0) await store.write(part);
}

/**
 * Writes the operations, unless an `ifRevision` does not match.
 * @returns `false` if an `ifRevision` did not match, so that nothing was written
 */
export async function tryToWrite(
  store: Pick<Store, 'write'>,
  operations: readonly Operation[],
): Promise<boolean> {
  try {
    await store.write(operations);
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}

/** Whether a write failed because an `ifRevision` did not match. */
export function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

/**
 * Calls `work`, and calls it again if another process has changed an entry between its read and
 * its write.
 * @throws StoreError ERR_REVISION if that happens in each of `maxAttempts` calls
 */
export async function retryConflicts<T>(
  work: () => Promise<T>,
  maxAttempts: number = Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isConflict(error) || attempt === maxAttempts) throw error;
    }
  }
}

function sizeOf(operation: Operation): number {
  const key = 'key' in operation ? operation.key : 'prefix' in operation ? operation.prefix : [];
  const value = 'value' in operation ? operation.value.length : 0;
  return key.reduce((sum, segment) => sum + segment.length * 3, stepBytes + value);
}

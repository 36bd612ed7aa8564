/**
 * What must survive goes through this interface before it is acknowledged. It knows neither
 * masters nor minions: ordered keys, revisions, watches, streams and expiry, so that one engine
 * may be an embedded database and another a cluster.
 */

/**
 * A key is a path of text segments, for instance `['jobs', jid, 'returns', id]`. Segments may
 * hold any well-formed text (1 to 512 bytes in UTF-8); engines encode them, so no segment can
 * reach into another. A key has at most 1,024 bytes, where a segment counts one more than its
 * length and U+0000 and U+0001 count two. Keys are ordered segment by segment, by the bytes of
 * their UTF-8 form; a prefix comes before what it begins.
 */
export type Key = readonly string[];

/** A stored value. */
export interface Entry {
  readonly key: Key;
  readonly value: Uint8Array;
  /** That of the {@link Store.write} it came with: grows with every write, never used twice. */
  readonly revision: number;
  /** Milliseconds since 1970 from which on the entry no longer exists. */
  readonly expiresAt?: number;
}

/**
 * One step of {@link Store.write}. Conditions are compared with the store as it was before the
 * first step; then the steps are done in their order.
 */
export type Operation =
  | {
      readonly op: 'put';
      readonly key: Key;
      readonly value: Uint8Array;
      /** Milliseconds since 1970. Default: kept for ever. */
      readonly expiresAt?: number;
      /** Only if the entry has this revision now; `0`: only if there is none. */
      readonly ifRevision?: number;
    }
  | { readonly op: 'delete'; readonly key: Key; readonly ifRevision?: number }
  /** Changes nothing: a condition on an entry that the write does not touch, such as a lease. */
  | { readonly op: 'require'; readonly key: Key; readonly ifRevision: number }
  /** Deletes every key that begins with these segments. */
  | { readonly op: 'delete-prefix'; readonly prefix: Key }
  | { readonly op: 'append'; readonly stream: string; readonly value: Uint8Array };

/** A change as {@link Store.watch} tells it. The end of an entry by expiry is none. */
export type Change =
  | { readonly type: 'put'; readonly entry: Entry }
  | { readonly type: 'delete'; readonly key: Key; readonly revision: number };

/** How {@link Store.list} walks. */
export interface ListOptions {
  /** Begin behind this key. */
  readonly after?: Key;
  /** At most so many entries. Default: all. */
  readonly limit?: number;
  /** From the last to the first; `after` is then the upper end. */
  readonly reverse?: boolean;
}

/** A record of a stream. */
export interface StreamRecord {
  /** 1, 2, 3 … without gaps in the order of appending. */
  readonly sequence: number;
  readonly value: Uint8Array;
  /** Milliseconds since 1970. */
  readonly appendedAt: number;
}

/** Reads a stream where it left off, also after a restart. */
export interface StreamConsumer {
  /** Records after the last acknowledged one, oldest first, at most `limit`. */
  fetch(limit: number): Promise<readonly StreamRecord[]>;
  /**
   * Marks all records up to and including `sequence` as done. Durable when it resolves. Less than
   * what was acknowledged before changes nothing, more than there is means all there is.
   */
  acknowledge(sequence: number): Promise<void>;
}

/** An append-only sequence of records. Appending is an {@link Operation}. */
export interface Stream {
  /** Records after `after` (default: from the beginning), oldest first, at most `limit`. */
  read(options?: {
    readonly after?: number;
    readonly limit?: number;
  }): Promise<readonly StreamRecord[]>;
  consumer(name: string): StreamConsumer;
  /** Forgets all records up to and including `sequence`; no number is given out again. */
  trim(sequence: number): Promise<void>;
}

/**
 * The store. Every method may be called at any time until `close`.
 * @throws StoreError ERR_KEY for a key, prefix or name that cannot be one, ERR_STORE_CLOSED,
 * ERR_STORE_UNAVAILABLE
 */
export interface Store {
  get(key: Key): Promise<Entry | undefined>;
  /** Entries whose key begins with `prefix`, in key order; a consistent view is not promised. */
  list(prefix: Key, options?: ListOptions): AsyncIterable<Entry>;
  /**
   * All of it or nothing. Resolves with the revision when the operations are on disk, so that a
   * crash afterwards forgets none. Values are copied by the call.
   * @throws StoreError ERR_REVISION when an `ifRevision` does not hold; nothing was written
   */
  write(operations: readonly Operation[]): Promise<number>;
  /**
   * Changes to keys under `prefix` from now on, made through this store, in the order of their
   * revisions. Ends with the signal or the store. A reader that falls more than 10,000 changes
   * behind gets a StoreError ERR_WATCH_OVERRUN.
   */
  watch(prefix: Key, signal: AbortSignal): AsyncIterable<Change>;
  stream(name: string): Stream;
  /** Waits for writes under way. May be called twice. */
  close(): Promise<void>;
}

/** In a cluster a write has a bound: NATS's `max_payload`, 1 MiB by default. */
const partBytes = 262_144;
/** What a step takes besides its key and its value, at most. */
const stepBytes = 64;

/** Writes steps that need not take effect together, as many at a time as any engine takes. */
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

function sizeOf(operation: Operation): number {
  const key = 'key' in operation ? operation.key : 'prefix' in operation ? operation.prefix : [];
  const value = 'value' in operation ? operation.value.length : 0;
  return key.reduce((sum, segment) => sum + segment.length * 3, stepBytes + value);
}

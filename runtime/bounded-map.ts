import { LRUCache } from 'lru-cache';
import type { Limit } from './limits.ts';

/** Options of {@link createBoundedMap}. */
export interface BoundedMapOptions<Key, Value> {
  /** Maximum total size of the entries. Default: `total` of the parameter `limit`. */
  readonly total?: number;
  /** Returns the size of an entry. Default: 1, so that the total is a number of entries. */
  readonly sizeOf?: (value: Value, key: Key) => number;
  /** Called with a value that was evicted or replaced. */
  readonly dispose?: (value: Value) => void;
}

/**
 * Creates a map of limited size. If a new entry exceeds the size, the map evicts the least recently
 * used entries. Its memory grows with the entries. The option `max` of `LRUCache`, in contrast,
 * reserves all memory at once. The map does not count entries per owner. Use a `FairTable` for
 * entries that clients can create.
 */
export function createBoundedMap<Key extends {}, Value extends {}>(
  limit: Limit,
  options: BoundedMapOptions<Key, Value> = {},
): LRUCache<Key, Value> {
  const { total = limit.total ?? 0, sizeOf = () => 1, dispose } = options;
  return new LRUCache({
    maxSize: total,
    sizeCalculation: sizeOf,
    ...(dispose === undefined ? {} : { dispose }),
  });
}

import { LRUCache } from 'lru-cache';

/**
 * Creates a map of at most `maxEntries`, which drops the entry that was used longest ago. Its memory
 * grows with the entries; the option `max` of `LRUCache` would reserve it for all of them at once.
 */
export function createBoundedMap<Key extends {}, Value extends {}>(
  maxEntries: number,
): LRUCache<Key, Value> {
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
}

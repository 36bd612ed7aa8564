import { LRUCache } from 'lru-cache';

/**
 * Creates a map of at most `maxEntries` that evicts the least recently used entry. Its memory grows
 * with the entries, whereas the option `max` of `LRUCache` reserves all of it at once.
 */
export function createBoundedMap<Key extends {}, Value extends {}>(
  maxEntries: number,
): LRUCache<Key, Value> {
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
}

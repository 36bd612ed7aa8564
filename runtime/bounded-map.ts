import { LRUCache } from 'lru-cache';

/**
 * Creates a map of at most `maxEntries` entries that evicts the least recently used entry. It uses
 * memory only for its present entries, whereas the option `max` of `LRUCache` allocates memory for
 * all entries in advance.
 */
export function createBoundedMap<Key extends {}, Value extends {}>(
  maxEntries: number,
): LRUCache<Key, Value> {
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
}

/** Limits the number of values in the data of a pillar request. */

import type { WireMap, WireValue } from '#minion-protocol';

/**
 * Whether a map from a minion has more than `maxNames` keys at its top level, or contains more than
 * `maxEntries` list elements and map entries in total. Stops counting at the limit, and copies no
 * map.
 */
export function exceedsEntries(
  map: WireMap,
  { maxNames, maxEntries }: { readonly maxNames: number; readonly maxEntries: number },
): boolean {
  let names = 0;
  for (const _ in map) {
    names += 1;
    if (names > maxNames) return true;
  }
  let entries = 0;
  const exceeds = (value: WireValue): boolean => {
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false;
    if (value instanceof Map) {
      entries += value.size;
      return entries > maxEntries || value.values().some(exceeds);
    }
    if (Array.isArray(value)) {
      entries += value.length;
      return entries > maxEntries || value.some(exceeds);
    }
    const items = Object.values(value);
    entries += items.length;
    return entries > maxEntries || items.some(exceeds);
  };
  return exceeds(map);
}

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';

const trimmed = 'VALUE_TRIMMED';

/**
 * Returns the same map if it is small enough. Otherwise returns a copy in which the largest
 * top-level values are replaced by `VALUE_TRIMMED` until it fits [salt/utils/dicttrim.py]. Sizes
 * are estimates of the size in MessagePack. The measurement of a value stops as soon as its size
 * exceeds `maxBytes`.
 */
export function trimValues(data: WireMap, maxBytes: number): WireMap {
  if (maxBytes === 0) return data;
  const sizes = Object.entries(data).map(([key, value]) => ({
    key,
    size: sizeOf(value, maxBytes),
  }));
  let total = sizes.reduce((sum, { size }) => sum + size, 0);
  if (total <= maxBytes) return data;
  const result: WireMap = { ...data };
  for (const { key, size } of sizes.sort((left, right) => right.size - left.size)) {
    if (total <= maxBytes) break;
    result[key] = trimmed;
    total -= size - trimmed.length;
  }
  return result;
}

/** Returns the size of a value. Stops with a number above `most` if the size exceeds `most`. */
function sizeOf(value: WireValue, most: number): number {
  if (typeof value === 'string') return value.length + 1;
  if (value instanceof Uint8Array) return value.byteLength + 1;
  if (value === null || typeof value !== 'object') return 5;
  let sum = 3;
  if (Array.isArray(value)) {
    for (const item of value) {
      sum += sizeOf(item, most - sum);
      if (sum > most) return sum;
    }
    return sum;
  }
  if (value instanceof Map) {
    for (const [key, item] of value) {
      sum += sizeOf(key, most - sum);
      if (sum <= most) sum += sizeOf(item, most - sum);
      if (sum > most) return sum;
    }
    return sum;
  }
  const map: Readonly<WireMap> = isWireMap(value) ? value : { ...value };
  for (const key of Object.keys(map)) {
    sum += key.length;
    if (sum <= most) sum += sizeOf(map[key] ?? null, most - sum);
    if (sum > most) return sum;
  }
  return sum;
}

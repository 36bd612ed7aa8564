import type { WireMap, WireValue } from '#minion-protocol';

const trimmed = 'VALUE_TRIMMED';

/**
 * Returns the same map if it is small enough. Otherwise returns a copy in which the largest
 * top-level values are replaced by `VALUE_TRIMMED` until it fits [salt/utils/dicttrim.py]. Sizes
 * are estimates of the size in MessagePack.
 */
export function trimValues(data: WireMap, maxBytes: number): WireMap {
  const sizes = Object.entries(data).map(([key, value]) => ({ key, size: sizeOf(value) }));
  let total = sizes.reduce((sum, { size }) => sum + size, 0);
  if (maxBytes === 0 || total <= maxBytes) return data;
  const result: WireMap = { ...data };
  for (const { key, size } of sizes.sort((left, right) => right.size - left.size)) {
    if (total <= maxBytes) break;
    result[key] = trimmed;
    total -= size - trimmed.length;
  }
  return result;
}

function sizeOf(value: WireValue): number {
  if (typeof value === 'string') return value.length + 1;
  if (value instanceof Uint8Array) return value.byteLength + 1;
  if (value === null || typeof value !== 'object') return 5;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + sizeOf(item), 3);
  if (value instanceof Map) {
    let sum = 3;
    for (const [key, item] of value) sum += sizeOf(key) + sizeOf(item);
    return sum;
  }
  return Object.entries(value).reduce<number>(
    (sum, [key, item]) => sum + key.length + sizeOf(item),
    3,
  );
}

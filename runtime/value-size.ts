/** Measures values of requests and returns, so that their size can be limited. */

import { isMap } from './plain-map.ts';

/** Limits on the size of a value. */
interface ValueSize {
  /** Maximum number of values. Lists and maps count as values, keys do not. */
  readonly values: number;
  /**
   * Maximum total length of all texts, keys and byte arrays, in characters or bytes. Default:
   * unlimited.
   */
  readonly characters?: number;
}

/** Whether a value exceeds a size. Stops counting when it does. */
export function isLargerThan(value: unknown, maximum: ValueSize): boolean {
  const { characters = Infinity } = maximum;
  const open: unknown[] = [value];
  let values = 1;
  let length = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === 'string') length += next.length;
    if (next instanceof Uint8Array) length += next.byteLength;
    const members = membersOf(next);
    values += members.length;
    for (const [key, member] of members) {
      length += key.length;
      open.push(member ?? null);
    }
    if (values > maximum.values || length > characters) return true;
  }
  return false;
}

function membersOf(value: unknown): readonly (readonly [key: string, value: unknown])[] {
  if (Array.isArray(value)) return value.map((item) => ['', item] as const);
  if (value instanceof Map) return [...value].map((entry) => ['', entry] as const);
  return isMap(value) ? Object.entries(value) : [];
}

/**
 * Number of bytes that an estimate adds for each list or map (`list`), and for each other value
 * (`other`).
 */
interface PartSizes {
  readonly list: number;
  readonly other: number;
}

/** Returns the approximate memory that a value takes, in bytes. */
export function memoryOf(value: unknown): number {
  return estimateSize(value, { list: 64, other: 16 });
}

/** Returns the approximate size of a value in a message, in bytes. */
export function messageSizeOf(value: unknown): number {
  return estimateSize(value, { list: 3, other: 3 });
}

/**
 * Returns the estimated size of a value, in bytes. It is the length of all texts, keys and byte
 * arrays, plus a fixed number of bytes for each value.
 */
export function estimateSize(value: unknown, parts: PartSizes): number {
  const open: unknown[] = [value];
  let bytes = 0;
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === 'string') bytes += next.length;
    if (next instanceof Uint8Array) bytes += next.byteLength;
    const isList = Array.isArray(next) || next instanceof Map || isMap(next);
    bytes += isList ? parts.list : parts.other;
    if (Array.isArray(next)) for (const item of next) open.push(item);
    else if (next instanceof Map) for (const [key, item] of next) open.push(key, item);
    else if (isMap(next)) {
      for (const [key, item] of Object.entries(next)) {
        bytes += key.length;
        open.push(item);
      }
    }
  }
  return bytes;
}

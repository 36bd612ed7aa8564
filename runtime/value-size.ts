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
  while (open.length > 0) {
    const next = open.pop();
    length += lengthOf(next);
    const before = open.length;
    length += pushMembers(next, open, maximum.values - values);
    values += open.length - before;
    if (values > maximum.values || length > characters) return true;
  }
  return false;
}

/** Returns the length of a text, in characters, or of a byte array, in bytes; otherwise 0. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  return value instanceof Uint8Array ? value.byteLength : 0;
}

/**
 * Adds the members of a list or map to `open`. Stops soon after `maximum` members.
 * @returns length of the keys of an object, in characters
 */
function pushMembers(value: unknown, open: unknown[], maximum: number): number {
  let length = 0;
  let left = maximum;
  if (Array.isArray(value)) {
    for (const item of value) {
      open.push(item);
      if (left-- <= 0) break;
    }
  } else if (value instanceof Map) {
    for (const [key, item] of value) {
      open.push(key, item);
      if (left-- <= 0) break;
    }
  } else if (isMap(value)) {
    // Not `Object.entries`, which takes several times as long because it creates a list per key.
    for (const key of Object.keys(value)) {
      length += key.length;
      open.push(value[key]);
      if (left-- <= 0) break;
    }
  }
  return length;
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
    bytes += lengthOf(next);
    const isList = Array.isArray(next) || next instanceof Map || isMap(next);
    bytes += isList ? parts.list : parts.other;
    if (isList) bytes += pushMembers(next, open, Infinity);
  }
  return bytes;
}

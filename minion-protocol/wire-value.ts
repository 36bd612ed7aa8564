/** The values that Salt's MessagePack represents, in memory. */

import { Float } from '#template/python/values.ts';

/**
 * A value that Salt's MessagePack can represent [WIRE 2.2]. The wire does not distinguish text and
 * bytes: bytes that are valid UTF-8 arrive as text. A number without a fraction is written as an
 * integer, and a `Float` always as a float. Floats without a fraction are read as `Float`.
 */
export type WireValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float
  | WireDateTime
  | WireExtension
  | WireValue[]
  | WireMap
  | Map<WireValue, WireValue>;

/**
 * A map with text keys only. Decoded maps have no inherited properties, so `__proto__` is an
 * ordinary key. As in every JavaScript object, keys that look like array indexes come first. To
 * keep the order of such keys, pack a `Map`.
 */
export interface WireMap {
  [key: string]: WireValue;
}

const isoForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/;

/** A date and time without a time zone, extension type 78 [salt/payload.py]. */
export class WireDateTime {
  /** ISO 8601 with microseconds: `2024-01-02T03:04:05.678901`. */
  readonly text: string;

  /**
   * Creates the value.
   * @throws TypeError if `text` does not have the form `2024-01-02T03:04:05.678901`
   */
  constructor(text: string) {
    if (!isoForm.test(text))
      throw new TypeError('the date and time must have the form YYYY-MM-DDTHH:MM:SS.ffffff');
    this.text = text;
  }

  toJSON(): string {
    return this.text;
  }
}

/** A MessagePack extension of a type that Salt does not define. */
export class WireExtension {
  /** Type of the extension, −128 to 127. */
  readonly code: number;
  readonly data: Uint8Array;

  constructor(code: number, data: Uint8Array) {
    this.code = code;
    this.data = data;
  }
}

/** Returns a `Float` as a number, and every other value unchanged. */
export function plainNumber<T>(value: T): Exclude<T, Float> | number {
  return value instanceof Float ? value.value : (value as Exclude<T, Float>); // no Float, see above
}

/**
 * Converts a number, a `Float` or a text to a number. Returns `NaN` for a text that is not a
 * number, and `undefined` for other values. `Number` would throw for maps from the wire.
 */
export function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' ? Number(value) : plainNumber(value);
  return typeof number === 'number' ? number : undefined;
}

/**
 * Returns a copy of the data in which each `Float` is a number. If the data contains no `Float`,
 * returns the same object.
 */
export function plainNumbers(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data;
  if (data instanceof Float) return data.value;
  if (Array.isArray(data)) {
    const items = data.map(plainNumbers);
    return items.every((item, index) => item === data[index]) ? data : items;
  }
  if (!isPlainObject(data)) return data;
  // Most maps contain no `Float`, and are not copied.
  let copy: Record<string, unknown> | undefined;
  for (const name of Object.keys(data)) {
    const plain = plainNumbers(data[name]);
    if (plain === data[name]) continue;
    copy ??= Object.assign(Object.create(null), data) as Record<string, unknown>;
    copy[name] = plain;
  }
  return copy ?? data;
}

/** Whether a value is a map with only text keys. */
export function isWireMap(value: WireValue | undefined): value is WireMap {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Map) &&
    !(value instanceof Uint8Array) &&
    !(value instanceof Float) &&
    !(value instanceof WireDateTime) &&
    !(value instanceof WireExtension)
  );
}

/**
 * Prototype of decoded maps: an empty object. With the prototype `null`, V8 would store the maps as
 * hash tables, at about five times the cost.
 */
const nothing: object = Object.freeze(Object.create(null));

/**
 * Returns an empty map that inherits nothing, so `__proto__` and `constructor` are ordinary keys.
 */
export function emptyWireMap(): WireMap {
  return Object.create(nothing);
}

/** Whether the object is a plain object and not an instance of a class. */
export function isPlainObject(value: object): value is WireMap {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === nothing || prototype === null || prototype === Object.prototype;
}

/**
 * Returns the value of a binary field as bytes, or `undefined` if it is neither text nor bytes. A
 * binary field arrives as text if its bytes are valid UTF-8 [WIRE 2.1].
 */
export function wireBytes(value: WireValue | undefined): Uint8Array | undefined {
  if (typeof value === 'string') return Buffer.from(value, 'utf8');
  return value instanceof Uint8Array ? value : undefined;
}

/** MessagePack extension type of a date and time. */
export const dateTimeCode = 78;
/** MessagePack extension type of a named constant: a packed pair of its name and its value. */
export const constantCode = 79;

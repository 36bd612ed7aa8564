/**
 * Encodes and decodes Salt's MessagePack, in the variants that Salt uses on the wire and locally
 * [WIRE 2; salt/payload.py, salt/utils/msgpack.py]. Libraries are unsuitable: they write str8,
 * which Salt does not use on the wire, and they corrupt a str that is not UTF-8. Salt sends
 * ciphertext in such a str.
 */

import { isUtf8 } from 'node:buffer';
import type { WorkBudget } from '#runtime';
import { Float } from '#template/python/values.ts';
import { ProtocolError } from './errors.ts';

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

/**
 * Rules for reading the MessagePack families raw, str and bin [WIRE 2.1]:
 *
 * - `wire` returns valid UTF-8 as text and all else as bytes.
 * - `local` does the same for raw and str, and returns bin as bytes.
 * - `raw` returns everything as bytes.
 */
type ReadingDialect = 'wire' | 'local' | 'raw';

/** Limits for reading a payload. */
export interface PayloadLimits {
  /** Maximum size of the packed form, in bytes. */
  readonly maxBytes: number;
  /** Maximum nesting of maps and lists. It also limits the recursion of the reader. */
  readonly maxDepth: number;
  /** Maximum number of list elements and map entries in the whole value. */
  readonly maxElements: number;
  /**
   * Whether a map with a duplicate key, or with a key that is not text, is rejected. Default:
   * `false`; then the last value of a duplicate key is used.
   */
  readonly uniqueKeys?: boolean;
  /**
   * Maximum size of a text, in bytes. A longer text is returned as bytes, which are not checked or
   * copied. Default: no maximum.
   */
  readonly maxTextBytes?: number;
}

/**
 * Number of entries above which {@link unpackWireInSlices} returns a map as a `Map`. An object with
 * more keys takes several times as long to build, and all its keys must be listed in one step.
 */
const maxObjectEntries = 20_000;
/**
 * Maximum number of elements in a named constant, a MessagePack extension with a name and a value.
 * Salt's constants have a few.
 */
const maxConstantElements = 1_000;
/** Number of steps of a slice, as in `runtime/work-budget.ts`. */
const stepsPerSlice = 100_000;
/**
 * Number of steps after which a reader that works in slices reports to its caller how many steps it
 * has done.
 */
const stepsPerCount = stepsPerSlice / 10;
/** Number of steps for reading a value that contains no other value. */
const stepsPerValue = 50;
/** Number of bytes of a text whose reading counts as one step of work. */
const bytesPerStep = 8;

/** List whose elements are being read in slices. */
class OpenList {
  readonly value: WireValue[] = [];
  /** Whether the next value is the key of a map entry. Always false, because this is a list. */
  readonly isAtKey = false;
  /** Number of elements of the list that have not been read yet. */
  missing: number;

  constructor(length: number) {
    this.missing = length;
  }

  add(value: WireValue): void {
    this.value.push(value);
    this.missing -= 1;
  }
}

/** Map whose entries are being read in slices. */
class OpenMap {
  value: WireMap | Map<WireValue, WireValue>;
  /** Number of keys and values of the map that have not been read yet. */
  missing: number;
  #key: WireValue = null;

  constructor(length: number) {
    this.value = length > maxObjectEntries ? new Map() : emptyWireMap();
    this.missing = 2 * length;
  }

  get isAtKey(): boolean {
    return this.missing % 2 === 0;
  }

  add(value: WireValue): void {
    if (this.isAtKey) this.#key = value;
    else this.#set(this.#key, value);
    this.missing -= 1;
  }

  #set(key: WireValue, value: WireValue): void {
    if (!(this.value instanceof Map)) {
      if (typeof key === 'string') {
        this.value[key] = value;
        return;
      }
      this.value = new Map<WireValue, WireValue>(Object.entries(this.value));
    }
    this.value.set(key, value);
  }
}

const dateTimeForm = /^(\d{4})(\d\d)(\d\d)(T\d\d:\d\d:\d\d\.\d{6})$/;
const dateTimeExtensionCode = 78;
/** MessagePack extension type of a named constant: a packed pair of its name and its value. */
export const constantExtensionCode = 79;
const shortTextBytes = 64;

/**
 * Reads one MessagePack value. It allocates memory only for bytes that have arrived. Lists and maps
 * grow with their elements, regardless of the length that they declare. A truncated text or byte
 * string is rejected.
 */
class PayloadReader {
  readonly #bytes: Buffer;
  readonly #limits: PayloadLimits;
  readonly #dialect: ReadingDialect;
  readonly #maxTextBytes: number;
  #offset = 0;
  #depth: number;
  #elements: number;

  constructor(
    bytes: Uint8Array,
    dialect: ReadingDialect,
    limits: PayloadLimits,
    depth = 0,
    elements = 0,
  ) {
    this.#bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#dialect = dialect;
    this.#limits = limits;
    this.#maxTextBytes = limits.maxTextBytes ?? Infinity;
    this.#depth = depth;
    this.#elements = elements;
  }

  /**
   * Reads the single value in the buffer.
   * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
   */
  readAll(): WireValue {
    this.#checkSize();
    const value = this.#value();
    this.#checkEnd();
    return value;
  }

  /** Number of list elements and map entries read so far. */
  get elements(): number {
    return this.#elements;
  }

  /**
   * Reads the single value in the buffer like {@link PayloadReader.readAll}, without recursion.
   * Yields the number of steps since the last interruption. The limit `uniqueKeys` is not supported.
   * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
   */
  *readInSteps(): Generator<number, WireValue> {
    this.#checkSize();
    const whole = new OpenList(1);
    const open: (OpenList | OpenMap)[] = [];
    let top: OpenList | OpenMap = whole;
    let steps = 0;
    while (whole.missing > 0) {
      const start = this.#offset;
      if (top.isAtKey) this.#refuseMapAsKey();
      const container = this.#openContainer();
      if (container === undefined) top.add(this.#value());
      else {
        open.push(top);
        top = container;
      }
      for (let outer = open.at(-1); top.missing === 0 && outer !== undefined; outer = open.at(-1)) {
        outer.add(top.value);
        top = outer;
        open.pop();
        this.#depth -= 1;
      }
      const bytes = this.#offset - start;
      // A single native call reads a text, so no slice can divide it.
      steps += stepsPerValue + Math.min(stepsPerSlice, Math.floor(bytes / bytesPerStep));
      if (steps < stepsPerCount) continue;
      yield steps;
      steps = 0;
    }
    this.#checkEnd();
    return whole.value[0] ?? null;
  }

  /** Reads the head of a list or map. Returns `undefined` if the next value is neither. */
  #openContainer(): OpenList | OpenMap | undefined {
    const head = this.#bytes[this.#offset] ?? 0;
    const isShort = head >= 0x80 && head < 0xa0;
    if (!isShort && (head < 0xdc || head > 0xdf)) return undefined;
    this.#take(1);
    const length = isShort ? head & 0x0f : this.#uint(2 << (head & 1));
    this.#enter(length);
    const isMap = isShort ? head < 0x90 : head >= 0xde;
    return isMap ? new OpenMap(length) : new OpenList(length);
  }

  #checkSize(): void {
    if (this.#bytes.length > this.#limits.maxBytes) {
      throw limitError(
        `the payload has ${this.#bytes.length} bytes; the maximum is ${this.#limits.maxBytes} bytes`,
      );
    }
  }

  #checkEnd(): void {
    if (this.#offset !== this.#bytes.length) {
      throw badPayload(`${this.#bytes.length - this.#offset} bytes follow after its end`);
    }
  }

  #value(): WireValue {
    const head = this.#bytes[this.#take(1)] ?? 0;
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 0x0f);
    if (head < 0xa0) return this.#list(head & 0x0f);
    if (head < 0xc0) return this.#text(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    return this.#headed(head);
  }

  #headed(head: number): WireValue {
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#bin(this.#uint(1 << (head - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#extension(this.#uint(1 << (head - 0xc7)));
      case 0xca:
        return exactFloat(this.#bytes.readFloatBE(this.#take(4)));
      case 0xcb:
        return exactFloat(this.#bytes.readDoubleBE(this.#take(8)));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#uint(1 << (head - 0xcc));
      case 0xcf:
        return smallest(this.#bytes.readBigUInt64BE(this.#take(8)));
      case 0xd0:
        return this.#bytes.readInt8(this.#take(1));
      case 0xd1:
        return this.#bytes.readInt16BE(this.#take(2));
      case 0xd2:
        return this.#bytes.readInt32BE(this.#take(4));
      case 0xd3:
        return smallest(this.#bytes.readBigInt64BE(this.#take(8)));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.#extension(1 << (head - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#uint(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#uint(2 << (head - 0xdc)));
      case 0xde:
      case 0xdf:
        return this.#map(this.#uint(2 << (head - 0xde)));
      default:
        throw badPayload('it contains the reserved byte 0xc1');
    }
  }

  #uint(size: number): number {
    const start = this.#take(size);
    if (size === 1) return this.#bytes[start] ?? 0;
    return size === 2 ? this.#bytes.readUInt16BE(start) : this.#bytes.readUInt32BE(start);
  }

  /**
   * Moves the read position forward by `size` bytes and returns the previous position.
   * @throws ProtocolError ERR_BAD_PAYLOAD if fewer bytes are left
   */
  #take(size: number): number {
    const start = this.#offset;
    if (size > this.#bytes.length - start) throw badPayload('the value is truncated');
    this.#offset = start + size;
    return start;
  }

  #enter(entries: number): void {
    this.#depth += 1;
    if (this.#depth > this.#limits.maxDepth) {
      throw limitError(`the nesting is deeper than ${this.#limits.maxDepth} levels`);
    }
    this.#elements += entries;
    if (this.#elements > this.#limits.maxElements) {
      throw limitError(`the payload has more than ${this.#limits.maxElements} elements`);
    }
  }

  #list(length: number): WireValue[] {
    this.#enter(length);
    const list: WireValue[] = [];
    for (let index = 0; index < length; index += 1) list.push(this.#value());
    this.#depth -= 1;
    return list;
  }

  #map(length: number): WireMap | Map<WireValue, WireValue> {
    this.#enter(length);
    const map = emptyWireMap();
    for (let index = 0; index < length; index += 1) {
      const key = this.#key();
      if (typeof key !== 'string') return this.#mixedMap(map, key, length - index);
      if (this.#limits.uniqueKeys && key in map) throw badPayload('a map contains a key twice');
      map[key] = this.#value();
    }
    this.#depth -= 1;
    return map;
  }

  /**
   * Reads the rest of a map after a key that is not text.
   * @param textKeys - entries that were read before this key
   * @param key - the first key that is not text; its value is read next
   * @param remaining - number of entries to read, including the entry of `key`
   * @throws ProtocolError ERR_BAD_PAYLOAD if `uniqueKeys` requires text keys
   */
  #mixedMap(textKeys: WireMap, key: WireValue, remaining: number): Map<WireValue, WireValue> {
    if (this.#limits.uniqueKeys) throw badPayload('a key of a map is not text');
    const map = new Map<WireValue, WireValue>(Object.entries(textKeys));
    map.set(key, this.#value());
    for (let index = 1; index < remaining; index += 1) {
      const next = this.#key();
      map.set(next, this.#value());
    }
    this.#depth -= 1;
    return map;
  }

  #key(): WireValue {
    this.#refuseMapAsKey();
    return this.#value();
  }

  /** Rejects a map as the key of another map, as Python does. */
  #refuseMapAsKey(): void {
    const head = this.#bytes[this.#offset];
    if (head === 0xde || head === 0xdf || (head !== undefined && head >> 4 === 0x8)) {
      throw badPayload('a key of a map is a map');
    }
  }

  #text(length: number): string | Uint8Array {
    const start = this.#take(length);
    const end = start + length;
    if (this.#dialect === 'raw') return this.#view(start, end);
    if (length > this.#maxTextBytes) return this.#view(start, end);
    if (length <= shortTextBytes && this.#isAscii(start, end)) {
      return this.#bytes.toString('latin1', start, end);
    }
    if (isUtf8(this.#bytes.subarray(start, end))) return this.#bytes.toString('utf8', start, end);
    return this.#view(start, end);
  }

  /**
   * Whether the bytes are ASCII. Most texts are short and ASCII. This check reduces the time for
   * reading a job return by a quarter (bench/payload).
   */
  #isAscii(start: number, end: number): boolean {
    for (let index = start; index < end; index += 1) {
      if ((this.#bytes[index] ?? 0) >= 0x80) return false;
    }
    return true;
  }

  #bin(length: number): string | Uint8Array {
    if (this.#dialect === 'wire') return this.#text(length);
    const start = this.#take(length);
    return this.#view(start, start + length);
  }

  #view(start: number, end: number): Uint8Array {
    return new Uint8Array(this.#bytes.buffer, this.#bytes.byteOffset + start, end - start);
  }

  #extension(length: number): WireValue {
    const code = this.#bytes.readInt8(this.#take(1));
    const start = this.#take(length);
    const data = this.#view(start, start + length);
    if (code === dateTimeExtensionCode) return dateTime(data) ?? new WireExtension(code, data);
    if (code === constantExtensionCode) return this.#constant(data);
    return new WireExtension(code, data);
  }

  /** Reads a named constant: a packed pair of its name and its value. Only the value is used. */
  #constant(data: Uint8Array): WireValue {
    const { maxElements } = this.#limits;
    const reader = new PayloadReader(
      data,
      'local',
      {
        ...this.#limits,
        maxElements: Math.min(maxElements, this.#elements + maxConstantElements),
      },
      this.#depth + 1,
      this.#elements + 1,
    );
    const pair = reader.readAll();
    this.#elements = reader.#elements;
    if (!Array.isArray(pair) || pair.length !== 2)
      throw badPayload('an extension value for a named constant is malformed');
    return pair[1] ?? null;
  }
}

function dateTime(data: Uint8Array): WireDateTime | undefined {
  const parts = dateTimeForm.exec(Buffer.from(data).toString('latin1'));
  return parts ? new WireDateTime(`${parts[1]}-${parts[2]}-${parts[3]}${parts[4]}`) : undefined;
}

/** Returns a float without a fraction as `Float`, so that it stays a float when it is written. */
function exactFloat(value: number): number | Float {
  return Number.isSafeInteger(value) ? new Float(value) : value;
}

function smallest(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function badPayload(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_PAYLOAD', `invalid payload: ${what}`);
}

function limitError(what: string): ProtocolError {
  return new ProtocolError('ERR_PAYLOAD_LIMIT', `payload exceeds its limit: ${what}`);
}

/**
 * Rules for writing text and bytes in MessagePack [WIRE 2.1]. `wire` writes both as the raw types
 * of the old MessagePack format. `local` also uses the newer types str8 and bin.
 */
type WritingDialect = 'wire' | 'local';

const initialBufferBytes = 512;
/** Minimum free memory in the buffer of a packed value after the buffer has grown, in bytes. */
const spareBytes = 512;
/**
 * Maximum nesting of maps and lists in a value to write. Every reader has a lower maximum. A value
 * that contains itself is rejected when it reaches this depth.
 */
const maxWritingDepth = 256;
/** MessagePack extension type of a date and time. */
const dateTimeCode = 78;

/** Thrown when a packed value exceeds the limit of its writer. Only this module catches it. */
class PackedSizeExceeded extends Error {}

/**
 * Writes one MessagePack value, with every integer and length in its smallest form, as Salt does.
 */
class PayloadWriter {
  readonly #dialect: WritingDialect;
  #bytes: Buffer = Buffer.allocUnsafe(initialBufferBytes);
  #length = 0;
  #depth = 0;
  readonly #maxBytes: number;

  /** @param maxBytes - maximum size of the packed form. Default: no limit */
  constructor(dialect: WritingDialect, maxBytes = Infinity) {
    this.#dialect = dialect;
    this.#maxBytes = maxBytes;
  }

  /** Returns the bytes written so far. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /**
   * Writes a value.
   * @throws TypeError for a value that Salt's MessagePack cannot represent
   */
  write(value: WireValue | undefined): void {
    if (typeof value === 'string') this.#text(value);
    else if (typeof value === 'number') this.#number(value);
    else if (typeof value === 'boolean') this.#head(value ? 0xc3 : 0xc2);
    else if (typeof value === 'bigint') this.#bigInteger(value);
    else if (value === null) this.#head(0xc0);
    else if (typeof value === 'object') this.#object(value);
    else throw new TypeError(`cannot encode a value: the type ${typeof value} is not supported`);
  }

  #object(value: object): void {
    if (value instanceof Uint8Array) this.#binary(value);
    else if (value instanceof Float) this.#float(value.value);
    else if (value instanceof WireDateTime) this.#dateTime(value);
    else if (value instanceof WireExtension) this.#extension(value.code, value.data);
    else this.#container(value);
  }

  #container(value: object): void {
    this.#depth += 1;
    if (this.#depth > maxWritingDepth)
      throw new TypeError(
        `cannot encode a value: it is nested more than ${maxWritingDepth} levels deep`,
      );
    if (Array.isArray(value)) this.#list(value);
    else if (value instanceof Map) this.#map(value);
    else if (isPlainObject(value)) this.#plainObject(value);
    else throw new TypeError('cannot encode a value: instances of classes are not supported');
    this.#depth -= 1;
  }

  /** Number of bytes written so far. */
  get length(): number {
    return this.#length;
  }

  listHead(length: number): void {
    this.#containerHead(length, 0x90, 0xdc);
  }

  mapHead(length: number): void {
    this.#containerHead(length, 0x80, 0xde);
  }

  #list(list: readonly WireValue[]): void {
    this.listHead(list.length);
    for (const item of list) this.write(item);
  }

  #map(map: ReadonlyMap<WireValue, WireValue>): void {
    this.mapHead(map.size);
    for (const [key, value] of map) {
      this.write(key);
      this.write(value);
    }
  }

  #plainObject(object: WireMap): void {
    const keys = Object.keys(object);
    this.mapHead(keys.length);
    for (const key of keys) {
      this.#text(key);
      this.write(object[key]);
    }
  }

  #containerHead(length: number, fix: number, head16: number): void {
    if (length < 16) this.#head(fix | length);
    else if (length <= 0xffff) this.#headed(head16, length, 2);
    else this.#headed(head16 + 1, length, 4);
  }

  #text(text: string): void {
    if (text.length < 32 && this.#shortAscii(text)) return;
    const length = Buffer.byteLength(text, 'utf8');
    this.#textHead(length);
    this.#reserve(length);
    this.#bytes.write(text, this.#length, length, 'utf8');
    this.#length += length;
  }

  /**
   * Writes a text of fewer than 32 characters and returns `true`, if the text is pure ASCII. Any
   * other text is not written, and the result is `false`. For short texts, a loop is faster than
   * two calls of Node.js functions (bench/payload).
   */
  #shortAscii(text: string): boolean {
    this.#reserve(1 + text.length);
    const start = this.#length + 1;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      if (code >= 0x80) return false;
      this.#bytes[start + index] = code;
    }
    this.#bytes[this.#length] = 0xa0 | text.length;
    this.#length = start + text.length;
    return true;
  }

  #textHead(length: number): void {
    if (length < 32) this.#head(0xa0 | length);
    else if (length <= 0xff && this.#dialect === 'local') this.#headed(0xd9, length, 1);
    else if (length <= 0xffff) this.#headed(0xda, length, 2);
    else this.#headed(0xdb, length, 4);
  }

  #binary(bytes: Uint8Array): void {
    if (this.#dialect === 'wire') this.#textHead(bytes.length);
    else this.#sizedHead(0xc4, bytes.length);
    this.#append(bytes);
  }

  /** Writes the head of a bin or ext value: the first byte, and the length in 1, 2 or 4 bytes. */
  #sizedHead(head8: number, length: number): void {
    if (length <= 0xff) this.#headed(head8, length, 1);
    else if (length <= 0xffff) this.#headed(head8 + 1, length, 2);
    else this.#headed(head8 + 2, length, 4);
  }

  #dateTime(value: WireDateTime): void {
    this.#extension(dateTimeCode, Buffer.from(value.text.replaceAll('-', ''), 'latin1'));
  }

  #extension(code: number, data: Uint8Array): void {
    const fixed = [1, 2, 4, 8, 16].indexOf(data.length);
    if (fixed >= 0) this.#head(0xd4 + fixed);
    else this.#sizedHead(0xc7, data.length);
    this.#head(code & 0xff);
    this.#append(data);
  }

  #number(value: number): void {
    if (!Number.isSafeInteger(value)) this.#float(value);
    else if (value >= 0) this.#positive(value);
    else this.#negative(value);
  }

  #positive(value: number): void {
    if (value < 0x80) this.#head(value);
    else if (value <= 0xff) this.#headed(0xcc, value, 1);
    else if (value <= 0xffff) this.#headed(0xcd, value, 2);
    else if (value <= 0xffff_ffff) this.#headed(0xce, value, 4);
    else this.#integer64(BigInt(value));
  }

  #negative(value: number): void {
    if (value >= -0x20) this.#head(value & 0xff);
    else if (value >= -0x80) this.#headed(0xd0, value & 0xff, 1);
    else if (value >= -0x8000) this.#headed(0xd1, value & 0xffff, 2);
    else if (value >= -0x8000_0000) this.#headed(0xd2, value >>> 0, 4);
    else this.#integer64(BigInt(value));
  }

  #bigInteger(value: bigint): void {
    const number = Number(value);
    if (Number.isSafeInteger(number)) this.#number(number);
    else if (value < -(1n << 63n) || value >= 1n << 64n) this.#text(value.toString());
    else this.#integer64(value);
  }

  #integer64(value: bigint): void {
    this.#reserve(9);
    this.#bytes[this.#length] = value < 0n ? 0xd3 : 0xcf;
    this.#bytes.writeBigUInt64BE(BigInt.asUintN(64, value), this.#length + 1);
    this.#length += 9;
  }

  #float(value: number): void {
    this.#reserve(9);
    this.#bytes[this.#length] = 0xcb;
    this.#bytes.writeDoubleBE(value, this.#length + 1);
    this.#length += 9;
  }

  #head(byte: number): void {
    this.#reserve(1);
    this.#bytes[this.#length] = byte;
    this.#length += 1;
  }

  #headed(head: number, value: number, size: number): void {
    this.#reserve(1 + size);
    this.#bytes[this.#length] = head;
    this.#bytes.writeUIntBE(value, this.#length + 1, size);
    this.#length += 1 + size;
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #reserve(size: number): void {
    const needed = this.#length + size;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#maxBytes) throw new PackedSizeExceeded();
    // Without spare bytes, the next value after a large text would double the memory and copy the
    // text.
    const grown = Buffer.allocUnsafe(Math.max(needed + spareBytes, 2 * this.#bytes.length));
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}

const mebibyte = 1024 * 1024;

/**
 * Limits for messages from unauthenticated peers [THREATS N-03, N-04]. They are low, because
 * sign-ins contain few values. An unknown peer therefore cannot make the master read a large map.
 */
export const clearLimits: PayloadLimits = {
  maxBytes: mebibyte,
  maxDepth: 8,
  maxElements: 2_000,
};

/**
 * Limits for messages from authenticated peers [THREATS N-04]. They are much higher than
 * {@link clearLimits}, because real returns are large. The schema of a Kubernetes resource
 * definition nests two levels per field and reaches depth 30 inside a state return. The package
 * list of a repository has 130,000 elements.
 */
export const loadLimits: PayloadLimits = {
  maxBytes: 16 * mebibyte,
  maxDepth: 64,
  maxElements: 250_000,
};

/**
 * Packs a value for the wire. As Salt does, text and bytes are both packed as MessagePack's old
 * type raw.
 * @throws TypeError for `undefined` and other values that cannot be packed
 */
export function packWire(value: WireValue): Buffer {
  const writer = new PayloadWriter('wire');
  writer.write(value);
  return writer.finish();
}

/** Several texts in packed form, each directly after the previous one. */
export interface PackedTexts {
  readonly bytes: Buffer;
  /** Offset of each text in `bytes`, followed by the length of `bytes`. */
  readonly offsets: Uint32Array;
}

/** Packs texts for the wire one after the other, without a list around them. */
export function packWireTexts(texts: readonly string[]): PackedTexts {
  const writer = new PayloadWriter('wire');
  const offsets = new Uint32Array(texts.length + 1);
  for (const [index, text] of texts.entries()) {
    writer.write(text);
    offsets[index + 1] = writer.length;
  }
  return { bytes: writer.finish(), offsets };
}

/** Returns the bytes that begin a packed list with this number of elements. */
export function packListHead(length: number): Buffer {
  const writer = new PayloadWriter('wire');
  writer.listHead(length);
  return writer.finish();
}

/** Returns the bytes that begin a packed map with this number of entries. */
export function packMapHead(length: number): Buffer {
  const writer = new PayloadWriter('wire');
  writer.mapHead(length);
  return writer.finish();
}

/** Maximum number of entries of a map that MessagePack encodes with a head of one byte (fixmap). */
const maxShortMap = 15;

/**
 * Packs a map whose values are already packed for the wire.
 * @throws RangeError for more than 15 entries
 */
export function packWireMap(packed: Readonly<Record<string, Uint8Array>>): Buffer {
  const entries = Object.entries(packed);
  if (entries.length > maxShortMap)
    throw new RangeError(`the map has more than ${maxShortMap} entries`);
  const head = Buffer.from([0x80 | entries.length]);
  return Buffer.concat([head, ...entries.flatMap(([key, value]) => [packWire(key), value])]);
}

/**
 * Unpacks a value from the wire. Valid UTF-8 becomes text, the rest stays bytes. Byte values are
 * views into `bytes`: copy them if you store them.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackWire(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'wire', limits).readAll();
}

/** Unpacks a value like {@link unpackWire}, and counts its list elements and map entries. */
export function unpackAndCount(
  bytes: Uint8Array,
  limits: PayloadLimits,
): { readonly value: WireValue; readonly elements: number } {
  const reader = new PayloadReader(bytes, 'wire', limits);
  return { value: reader.readAll(), elements: reader.elements };
}

/**
 * Unpacks a value like {@link unpackWire}, in slices. Other work runs between the slices. A map
 * with more than {@link maxObjectEntries} entries is returned as a `Map`.
 * @param budget - work budget. Its owner takes turns with the owners of other work
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export async function unpackWireInSlices(
  bytes: Uint8Array,
  limits: PayloadLimits,
  budget: WorkBudget,
): Promise<WireValue> {
  const reading = new PayloadReader(bytes, 'wire', limits).readInSteps();
  for (;;) {
    const { done, value } = reading.next();
    if (done) return value;
    await budget.giveWayAfter(value);
  }
}

/**
 * Unpacks a value, and returns every text and every map key as bytes. Minions unpack the reply to
 * `_serve_file` in this way.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackRaw(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'raw', limits).readAll();
}

/**
 * Packs a value for event sockets and local files. Text becomes str, and bytes become bin.
 * @throws TypeError for a value that cannot be packed
 */
export function packLocal(value: WireValue): Buffer {
  const writer = new PayloadWriter('local');
  writer.write(value);
  return writer.finish();
}

/**
 * Packs a value like {@link packLocal}. Returns `undefined` if the packed form exceeds `maxBytes`;
 * the rest of the value is then not read.
 */
export function packLocalWithin(value: WireValue, maxBytes: number): Buffer | undefined {
  const writer = new PayloadWriter('local', maxBytes);
  try {
    writer.write(value);
  } catch (error) {
    if (error instanceof PackedSizeExceeded) return undefined;
    throw error;
  }
  const packed = writer.finish();
  return packed.length > maxBytes ? undefined : packed;
}

/**
 * Unpacks a value from an event socket or local file. Text is returned as text, and bin as bytes
 * (views of `bytes`).
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackLocal(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'local', limits).readAll();
}

/**
 * Codec for stored fields that contain wire values. It uses {@link packLocal} and
 * {@link unpackLocal}.
 */
export const localField: {
  pack(value: WireValue): Uint8Array;
  unpack(bytes: Uint8Array): WireValue;
} = {
  pack: packLocal,
  unpack: (bytes: Uint8Array): WireValue => unpackLocal(bytes),
};

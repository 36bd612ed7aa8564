import { isUtf8 } from 'node:buffer';
import { Float } from '#template/python/values.ts';
import { ProtocolError } from './errors.ts';
import type { PayloadLimits } from './payload-limits.ts';
import {
  constantCode,
  dateTimeCode,
  emptyWireMap,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from './wire-value.ts';

/**
 * Rules for reading the MessagePack families raw, str and bin [WIRE 2.1]:
 *
 * - `wire` returns valid UTF-8 as text and all else as bytes.
 * - `local` does the same for raw and str, and returns bin as bytes.
 * - `raw` returns everything as bytes.
 */
type ReadingDialect = 'wire' | 'local' | 'raw';

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
const shortTextBytes = 64;

/**
 * Reads one MessagePack value. It allocates memory only for bytes that have arrived. Lists and maps
 * grow with their elements, regardless of the length that they declare. A truncated text or byte
 * string is rejected.
 */
export class PayloadReader {
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
    if (code === dateTimeCode) return dateTime(data) ?? new WireExtension(code, data);
    if (code === constantCode) return this.#constant(data);
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

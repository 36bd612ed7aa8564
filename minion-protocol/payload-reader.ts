import { isUtf8 } from 'node:buffer';
import { ProtocolError } from './errors.ts';
import {
  emptyWireMap,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from './wire-value.ts';

/**
 * How the raw, str and bin families are read: `wire` makes text of whatever is valid UTF-8, `local`
 * keeps bin as bytes, `raw` keeps everything as bytes [WIRE 2.1].
 */
export type ReadingDialect = 'wire' | 'local' | 'raw';

/** Bounds of what is read. */
export interface PayloadLimits {
  /** Size of the packed form. */
  readonly maxBytes: number;
  /** Maps and lists inside each other; also bounds the reader's recursion. */
  readonly maxDepth: number;
  /** List elements and map entries, counted over the whole value. */
  readonly maxElements: number;
  /** Refuse a map that has a key twice, or a key that is not text. Default: the last one wins. */
  readonly uniqueKeys?: boolean;
}

const dateTimeForm = /^(\d{4})(\d\d)(\d\d)(T\d\d:\d\d:\d\d\.\d{6})$/;
const dateTimeCode = 78;
const constantCode = 79;
const shortText = 64;

/**
 * Reads one MessagePack value. Allocates only for what has arrived: lists and maps grow with their
 * elements, whatever length they declare, and texts and bytes must be there in full.
 */
export class PayloadReader {
  readonly #bytes: Buffer;
  readonly #limits: PayloadLimits;
  readonly #dialect: ReadingDialect;
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
    this.#depth = depth;
    this.#elements = elements;
  }

  /** The one value that the bytes hold. @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT */
  readAll(): WireValue {
    if (this.#bytes.length > this.#limits.maxBytes) {
      throw limitError(`${this.#bytes.length} bytes, at most ${this.#limits.maxBytes} allowed`);
    }
    const value = this.#value();
    if (this.#offset !== this.#bytes.length) {
      throw badPayload(`${this.#bytes.length - this.#offset} bytes after the value`);
    }
    return value;
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
        return this.#bytes.readFloatBE(this.#take(4));
      case 0xcb:
        return this.#bytes.readDoubleBE(this.#take(8));
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
        throw badPayload('a reserved byte'); // 0xc1
    }
  }

  #uint(size: number): number {
    const start = this.#take(size);
    if (size === 1) return this.#bytes[start] ?? 0;
    return size === 2 ? this.#bytes.readUInt16BE(start) : this.#bytes.readUInt32BE(start);
  }

  /** Moves behind the next `size` bytes and says where they start. */
  #take(size: number): number {
    const start = this.#offset;
    if (size > this.#bytes.length - start) throw badPayload('the value ends too early');
    this.#offset = start + size;
    return start;
  }

  #enter(entries: number): void {
    this.#depth += 1;
    // protection: deep-payloads
    if (this.#depth > this.#limits.maxDepth) {
      throw limitError(`deeper than ${this.#limits.maxDepth} levels`);
    }
    this.#elements += entries;
    if (this.#elements > this.#limits.maxElements) {
      throw limitError(`more than ${this.#limits.maxElements} elements`);
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
      if (this.#limits.uniqueKeys && key in map) throw badPayload('a map with a key twice');
      map[key] = this.#value();
    }
    this.#depth -= 1;
    return map;
  }

  /** Goes on with a map that turned out to have a key that is not text. */
  #mixedMap(textKeys: WireMap, key: WireValue, remaining: number): Map<WireValue, WireValue> {
    if (this.#limits.uniqueKeys) throw badPayload('a map with a key that is not text');
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
    const head = this.#bytes[this.#offset];
    // As in Python, where a map cannot be a key.
    if (head === 0xde || head === 0xdf || (head !== undefined && head >> 4 === 0x8)) {
      throw badPayload('a map as a key of a map');
    }
    return this.#value();
  }

  #text(length: number): string | Uint8Array {
    const start = this.#take(length);
    const end = start + length;
    if (this.#dialect === 'raw') return this.#view(start, end);
    if (length <= shortText && this.#isAscii(start, end)) {
      return this.#bytes.toString('latin1', start, end);
    }
    if (isUtf8(this.#bytes.subarray(start, end))) return this.#bytes.toString('utf8', start, end);
    return this.#view(start, end);
  }

  /** Most texts are short and ASCII: a return reads a quarter faster with it (bench/payload). */
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

  /** A named constant is a packed pair of its name and its value; only the value has a use here. */
  #constant(data: Uint8Array): WireValue {
    const reader = new PayloadReader(
      data,
      'local',
      this.#limits,
      this.#depth + 1,
      this.#elements + 1,
    );
    const pair = reader.readAll();
    this.#elements = reader.#elements;
    if (!Array.isArray(pair) || pair.length !== 2) throw badPayload('a malformed constant');
    return pair[1] ?? null;
  }
}

function dateTime(data: Uint8Array): WireDateTime | undefined {
  const parts = dateTimeForm.exec(Buffer.from(data).toString('latin1'));
  return parts ? new WireDateTime(`${parts[1]}-${parts[2]}-${parts[3]}${parts[4]}`) : undefined;
}

function smallest(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function badPayload(what: string): ProtocolError {
  return new ProtocolError('ERR_BAD_PAYLOAD', `not a payload: ${what}`);
}

function limitError(what: string): ProtocolError {
  return new ProtocolError('ERR_PAYLOAD_LIMIT', `payload over its limit: ${what}`);
}

import { Float } from '#template/python/values.ts';
import {
  dateTimeCode,
  isPlainObject,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from './wire-value.ts';

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

/** Thrown when a packed value exceeds the limit of its writer. Only this module catches it. */
export class PackedSizeExceeded extends Error {}

/**
 * Writes one MessagePack value, with every integer and length in its smallest form, as Salt does.
 */
export class PayloadWriter {
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

import {
  isPlainObject,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from './wire-value.ts';

/**
 * How text and bytes are written: `wire` knows only the old raw family, `local` has str8 and bin
 * [WIRE 2.1].
 */
export type WritingDialect = 'wire' | 'local';

const initialSize = 512;
/** Deeper than any reader accepts: stops values that contain themselves. */
const maxDepth = 256;
const dateTimeCode = 78;

/** Writes one MessagePack value, every integer and length in its smallest form, as Salt does. */
export class PayloadWriter {
  readonly #dialect: WritingDialect;
  #bytes: Buffer = Buffer.allocUnsafe(initialSize);
  #length = 0;
  #depth = 0;

  constructor(dialect: WritingDialect) {
    this.#dialect = dialect;
  }

  /** The bytes written so far. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** @throws TypeError on a value that MessagePack of Salt has no word for */
  write(value: WireValue | undefined): void {
    if (typeof value === 'string') this.#text(value);
    else if (typeof value === 'number') this.#number(value);
    else if (typeof value === 'boolean') this.#head(value ? 0xc3 : 0xc2);
    else if (typeof value === 'bigint') this.#bigInteger(value);
    else if (value === null) this.#head(0xc0);
    else if (typeof value === 'object') this.#object(value);
    else throw new TypeError(`a value of type ${typeof value} cannot be packed`);
  }

  #object(value: object): void {
    if (value instanceof Uint8Array) this.#binary(value);
    else if (value instanceof WireDateTime) this.#dateTime(value);
    else if (value instanceof WireExtension) this.#extension(value.code, value.data);
    else this.#container(value);
  }

  #container(value: object): void {
    this.#depth += 1;
    if (this.#depth > maxDepth) throw new TypeError(`a value deeper than ${maxDepth} levels`);
    if (Array.isArray(value)) this.#list(value);
    else if (value instanceof Map) this.#map(value);
    else if (isPlainObject(value)) this.#plainObject(value);
    else throw new TypeError('an object of a class cannot be packed');
    this.#depth -= 1;
  }

  #list(list: readonly WireValue[]): void {
    this.#containerHead(list.length, 0x90, 0xdc);
    for (const item of list) this.write(item);
  }

  #map(map: ReadonlyMap<WireValue, WireValue>): void {
    this.#containerHead(map.size, 0x80, 0xde);
    for (const [key, value] of map) {
      this.write(key);
      this.write(value);
    }
  }

  #plainObject(object: WireMap): void {
    const keys = Object.keys(object);
    this.#containerHead(keys.length, 0x80, 0xde);
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

  /** Most texts are short and ASCII: a loop is faster than two calls into Node (bench/payload). */
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

  /** A head of the bin or ext family: 8, 16 or 32 bits of length. */
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
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}

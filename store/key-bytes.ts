/**
 * Keys as bytes. The segments' UTF-8, each ended by 00; inside a segment 00 is written 01 01 and
 * 01 is written 01 02. So 00 only ever ends a segment, and the order of the bytes is the order
 * that {@link Key} promises.
 */

import { StoreError } from './errors.ts';
import type { Key } from './store.ts';

const maxSegmentBytes = 512;
const maxKeyBytes = 1024;
const endOfSegment = 0x00;
const escapeByte = 0x01;
/** Most segments: as many bytes as characters, none of them to be escaped. */
const plainSegment = /^[ -~]{1,512}$/;

/**
 * The bytes of a key of one segment or more.
 * @throws StoreError ERR_KEY
 */
export function encodeKey(key: Key): Buffer {
  if (key.length === 0) throw new StoreError('ERR_KEY', 'a key needs at least one segment');
  return encodePrefix(key);
}

/**
 * The bytes that every key under `prefix` begins with; none for the empty prefix.
 * @throws StoreError ERR_KEY
 */
export function encodePrefix(prefix: Key): Buffer {
  const bytes = Buffer.from(prefix.map(encodeSegment).join(''));
  if (bytes.length > maxKeyBytes) {
    throw new StoreError('ERR_KEY', `a key of ${bytes.length} bytes; at most ${maxKeyBytes}`);
  }
  return bytes;
}

/** The first bytes behind all keys under an encoded prefix. */
export function endOfPrefix(prefix: Buffer): Buffer {
  if (prefix.length === 0) return Buffer.of(0xff); // no UTF-8 begins so
  const end = Buffer.from(prefix);
  end[end.length - 1] = endOfSegment + 1;
  return end;
}

/** The first bytes behind an encoded key. */
export function keySuccessor(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

/** The key of bytes made by {@link encodeKey}. */
export function decodeKey(bytes: Buffer): Key {
  const segments: string[] = [];
  let start = 0;
  for (let end = bytes.indexOf(0); end !== -1; end = bytes.indexOf(0, start)) {
    segments.push(decodeSegment(bytes.subarray(start, end)));
    start = end + 1;
  }
  return segments;
}

/** The segment as text whose UTF-8 is that of the key. */
function encodeSegment(segment: string): string {
  if (plainSegment.test(segment)) return `${segment}\0`;
  // Two different texts with lone surrogates would have the same UTF-8.
  if (/\p{Surrogate}/u.test(segment)) {
    throw new StoreError('ERR_KEY', 'a key segment with half a surrogate pair');
  }
  const length = Buffer.byteLength(segment);
  if (length === 0 || length > maxSegmentBytes) {
    throw new StoreError(
      'ERR_KEY',
      `a key segment of ${length} bytes; 1 to ${maxSegmentBytes} are possible`,
    );
  }
  const escaped = segment.replaceAll('\u0001', '\u0001\u0002').replaceAll('\0', '\u0001\u0001');
  return `${escaped}\0`;
}

function decodeSegment(bytes: Buffer): string {
  if (!bytes.includes(escapeByte)) return bytes.toString();
  const text: number[] = [];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.readUInt8(i);
    if (byte !== escapeByte) text.push(byte);
    else text.push(bytes.readUInt8(++i) - 1);
  }
  return Buffer.from(text).toString();
}

/** Whether a key as bytes begins with the bytes of a prefix. */
export function isBelow(prefix: Buffer, key: Buffer): boolean {
  return key.subarray(0, prefix.length).equals(prefix);
}

/**
 * Encodes keys as bytes. Each segment is UTF-8 followed by 00. Inside a segment, 00 is written as
 * 01 01 and 01 as 01 02. So 00 occurs only at the end of a segment, and the bytes sort in the order
 * that {@link Key} documents.
 */

import { StoreError } from './errors.ts';
import type { Key } from './store.ts';

const maxSegmentBytes = 512;
const maxKeyBytes = 1024;
const endOfSegment = 0x00;
const escapeByte = 0x01;
/**
 * Most common form of a segment: only characters that are encoded as one byte and need no escape.
 */
const plainSegment = /^[ -~]{1,512}$/;

/**
 * Returns the bytes of a key with at least one segment.
 * @throws StoreError ERR_KEY
 */
export function encodeKey(key: Key): Buffer {
  if (key.length === 0) throw new StoreError('ERR_KEY', 'a key must have at least one segment');
  return encodePrefix(key);
}

/**
 * Returns the common first bytes of all encoded keys under `prefix`. The empty prefix has no bytes.
 * @throws StoreError ERR_KEY
 */
export function encodePrefix(prefix: Key): Buffer {
  const bytes = Buffer.from(prefix.map(encodeSegment).join(''));
  if (bytes.length > maxKeyBytes) {
    throw new StoreError(
      'ERR_KEY',
      `the key has ${bytes.length} bytes; the maximum is ${maxKeyBytes}`,
    );
  }
  return bytes;
}

/** Returns the smallest bytes that sort after all keys under an encoded prefix. */
export function endOfPrefix(prefix: Buffer): Buffer {
  if (prefix.length === 0) return Buffer.of(0xff); // UTF-8 never begins with FF
  const end = Buffer.from(prefix);
  end[end.length - 1] = endOfSegment + 1;
  return end;
}

/** Returns the smallest bytes that sort after an encoded key. */
export function keySuccessor(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

/** Decodes the bytes that {@link encodeKey} returned. */
export function decodeKey(bytes: Buffer): Key {
  const segments: string[] = [];
  let start = 0;
  for (let end = bytes.indexOf(0); end !== -1; end = bytes.indexOf(0, start)) {
    segments.push(decodeSegment(bytes.subarray(start, end)));
    start = end + 1;
  }
  return segments;
}

/**
 * Encodes a segment, including the byte 00 that ends it. Returns a string, whose UTF-8 bytes become
 * a part of the encoded key.
 */
function encodeSegment(segment: string): string {
  if (plainSegment.test(segment)) return `${segment}\0`;
  // Lone surrogates are rejected, because UTF-8 encodes all of them as the same character.
  if (/\p{Surrogate}/u.test(segment)) {
    throw new StoreError('ERR_KEY', 'a key segment contains half a surrogate pair');
  }
  const length = Buffer.byteLength(segment);
  if (length === 0 || length > maxSegmentBytes) {
    throw new StoreError(
      'ERR_KEY',
      `a key segment has ${length} bytes; it must have 1 to ${maxSegmentBytes}`,
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

/** Whether an encoded key begins with an encoded prefix. */
export function isBelow(prefix: Buffer, key: Buffer): boolean {
  return key.subarray(0, prefix.length).equals(prefix);
}

/**
 * Keys as bytes. The segments' UTF-8, each ended by 00; inside a segment 00 is written 01 01 and
 * 01 is written 01 02. So 00 only ever ends a segment, and the order of the bytes is the order
 * that {@link Key} promises.
 */

import { open } from 'node:fs/promises';
import { StoreError } from './errors.ts';
import type { Entry, Key, StreamRecord } from './store.ts';
import type { Row, Tables } from './tables.ts';

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

// How rows are laid out. Numbers are IEEE 754 doubles, big-endian: the bytes of those that are
// not negative sort as the numbers do.
//
// entries   key                      → revision (8)  expiresAt (8, infinite: never)  value
// expiries  expiresAt (8)  key       → nothing
// records   stream 00  sequence (8)  → appendedAt (8)  value

const numberBytes = 8;

/** An entry as it is stored. */
export interface EntryRecord {
  readonly revision: number;
  /** Milliseconds since 1970; `Infinity` if it is kept for ever. */
  readonly expiresAt: number;
  readonly value: Buffer;
}

/** A number as eight bytes that sort like it. */
export function packNumber(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes);
  bytes.writeDoubleBE(value);
  return bytes;
}

/** The number of {@link packNumber}; 0 when there is none. */
export function unpackNumber(bytes: Buffer | undefined): number {
  return bytes === undefined ? 0 : bytes.readDoubleBE();
}

/** The row of an entry, a copy. Its revision is known when it is written: see {@link setRevision}. */
export function packEntry(value: Uint8Array, expiresAt: number): Buffer {
  const row = Buffer.allocUnsafe(2 * numberBytes + value.length);
  row.writeDoubleBE(0, 0);
  row.writeDoubleBE(expiresAt, numberBytes);
  row.set(value, 2 * numberBytes);
  return row;
}

export function setRevision(row: Buffer, revision: number): void {
  row.writeDoubleBE(revision, 0);
}

/** The entry of a row. */
export function unpackEntry(bytes: Buffer): EntryRecord {
  return {
    revision: bytes.readDoubleBE(0),
    expiresAt: bytes.readDoubleBE(numberBytes),
    value: bytes.subarray(2 * numberBytes),
  };
}

/** The entry of a key as readers get it. */
export function entryOf(key: Key, { value, revision, expiresAt }: EntryRecord): Entry {
  return expiresAt === Number.POSITIVE_INFINITY
    ? { key, value, revision }
    : { key, value, revision, expiresAt };
}

/** The key in `expiries` of an entry that ends. */
export function packExpiry(expiresAt: number, key: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes + key.length);
  bytes.writeDoubleBE(expiresAt);
  bytes.set(key, numberBytes);
  return bytes;
}

/** The encoded key of the entry that a row of `expiries` is about. */
export function keyOfExpiry(expiry: Buffer): Buffer {
  return expiry.subarray(numberBytes);
}

/** The key in `records` of one record of a stream. */
export function packRecordKey(stream: Buffer, sequence: number): Buffer {
  return Buffer.concat([stream, packNumber(sequence)]);
}

/** The row of a stream record. */
export function packRecord(appendedAt: number, value: Uint8Array): Buffer {
  return Buffer.concat([packNumber(appendedAt), value]);
}

/** The stream record of a row. */
export function unpackRecord({ key, value }: Row): StreamRecord {
  return {
    sequence: key.readDoubleBE(key.length - numberBytes),
    value: value.subarray(numberBytes),
    appendedAt: value.readDoubleBE(),
  };
}

// How the files of an embedded store are recognised, and what it knows of itself (table `meta`).

/** How the rows of this version are laid out, as described above. */
export const layoutVersion = 2;

/** Where the layout is written; absent in layout 0, and in a store that has just been made. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Where the revision of the last write is. */
export const revisionKey: Buffer = encodeKey(['revision']);

/**
 * LMDB ends the process when it is given a file that is not its own, so look first.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export async function checkSignature(file: string): Promise<void> {
  const signatureOffset = 24;
  const signature = 0xbeefc0de;
  const handle = await open(file);
  try {
    if ((await handle.stat()).size === 0) return;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, signatureOffset);
    if (bytesRead < 4 || buffer.readUInt32LE() !== signature) {
      throw new StoreError('ERR_STORE_CORRUPT', `${file} is not a database of this store`);
    }
  } finally {
    await handle.close();
  }
}

/**
 * The layout of a store, {@link layoutVersion} or an older one.
 * @throws StoreError ERR_STORE_VERSION for one of a later version
 */
export function readLayout(tables: Tables, directory: string): number {
  const layout = unpackNumber(tables.meta.get(layoutKey));
  if (layout <= layoutVersion) return layout;
  throw new StoreError(
    'ERR_STORE_VERSION',
    `${directory} has layout ${layout}; this version knows layouts up to ${layoutVersion}`,
  );
}

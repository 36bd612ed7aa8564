/**
 * The layout of rows. Numbers are IEEE 754 doubles, big-endian: the bytes of those that are not
 * negative sort as the numbers do.
 *
 *     entries   key                      → revision (8)  expiresAt (8, infinite: never)  value
 *     expiries  expiresAt (8)  key       → nothing
 *     records   stream 00  sequence (8)  → appendedAt (8)  value
 *     meta      what a store records of itself
 */

import { StoreError } from './errors.ts';
import { encodeKey } from './key-bytes.ts';
import type { Entry, Key, StreamRecord } from './store.ts';
import type { Row, Tables } from './tables.ts';

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

/** How the rows of this version are laid out, as described above. */
export const layoutVersion = 2;

/** Where the layout is written; absent in layout 0, and in a store that has just been made. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Where the revision of the last write is. */
export const revisionKey: Buffer = encodeKey(['revision']);

/** Where a store that follows a log keeps what it knows of it. */
export const logStateKey: Buffer = encodeKey(['log', 'view']);

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

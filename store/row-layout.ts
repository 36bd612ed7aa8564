/**
 * The layout of rows. Numbers are big-endian IEEE 754 doubles. The bytes of non-negative numbers
 * sort in the same order as the numbers.
 *
 *     entries   key                      → revision (8)  expiresAt (8, infinite: never)  value
 *     expiries  expiresAt (8)  key       → nothing
 *     records   stream 00  sequence (8)  → appendedAt (8)  value
 *     meta      metadata of the store, such as its layout version
 */

import { StoreError } from './errors.ts';
import { encodeKey } from './key-bytes.ts';
import type { Entry, Key, StreamRecord } from './store.ts';
import type { Row, Tables } from './tables.ts';

const numberBytes = 8;

/** Content of an entry's row: value, revision and expiry time. */
export interface EntryRecord {
  readonly revision: number;
  /** Expiry in milliseconds since 1970, or `Infinity`. */
  readonly expiresAt: number;
  readonly value: Buffer;
}

/** Returns a number as eight bytes, which sort in the same order as the numbers. */
export function packNumber(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes);
  bytes.writeDoubleBE(value);
  return bytes;
}

/** Decodes a number that {@link packNumber} encoded. Returns 0 for `undefined`. */
export function unpackNumber(bytes: Buffer | undefined): number {
  return bytes === undefined ? 0 : bytes.readDoubleBE();
}

/**
 * Encodes an entry as a row, with a copy of the value. The revision is set later by
 * {@link setRevision}, when the row is written.
 */
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

/** Decodes the row of an entry. */
export function unpackEntry(bytes: Buffer): EntryRecord {
  return {
    revision: bytes.readDoubleBE(0),
    expiresAt: bytes.readDoubleBE(numberBytes),
    value: bytes.subarray(2 * numberBytes),
  };
}

/** Converts a decoded entry to the form of the public interface. */
export function entryOf(key: Key, { value, revision, expiresAt }: EntryRecord): Entry {
  return expiresAt === Number.POSITIVE_INFINITY
    ? { key, value, revision }
    : { key, value, revision, expiresAt };
}

/** Returns the key of an entry's row in `expiries`. */
export function packExpiry(expiresAt: number, key: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(numberBytes + key.length);
  bytes.writeDoubleBE(expiresAt);
  bytes.set(key, numberBytes);
  return bytes;
}

/** Returns the encoded key of an entry from the key of its row in `expiries`. */
export function keyOfExpiry(expiry: Buffer): Buffer {
  return expiry.subarray(numberBytes);
}

/** Returns the key of a stream record's row in `records`. */
export function packRecordKey(stream: Buffer, sequence: number): Buffer {
  return Buffer.concat([stream, packNumber(sequence)]);
}

/** Encodes a stream record as a row. */
export function packRecord(appendedAt: number, value: Uint8Array): Buffer {
  return Buffer.concat([packNumber(appendedAt), value]);
}

/** Decodes the row of a stream record. */
export function unpackRecord({ key, value }: Row): StreamRecord {
  return {
    sequence: key.readDoubleBE(key.length - numberBytes),
    value: value.subarray(numberBytes),
    appendedAt: value.readDoubleBE(),
  };
}

/** Current version of the row layout, which the comment at the start of this file describes. */
export const layoutVersion = 2;

/** Key of the layout version in `meta`. The row is absent in layout 0 and in a new store. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Key of the row with the revision of the last write, in the table `meta`. */
export const revisionKey: Buffer = encodeKey(['revision']);

/**
 * Key in the table `meta`. Its value contains the position in the cluster's log up to which this
 * store has applied the log.
 */
export const logStateKey: Buffer = encodeKey(['log', 'view']);

/**
 * Returns the layout version of a store, which is at most {@link layoutVersion}.
 * @throws StoreError ERR_STORE_VERSION for a later layout
 */
export function readLayout(tables: Tables, directory: string): number {
  const layout = unpackNumber(tables.meta.get(layoutKey));
  if (layout <= layoutVersion) return layout;
  throw new StoreError(
    'ERR_STORE_VERSION',
    `${directory} has layout ${layout}; this version supports layouts up to ${layoutVersion}`,
  );
}

/** Computes a digest of a store's content, independent of revisions, layout and engine. */

import { createHash, type Hash } from 'node:crypto';
import { setImmediate as othersTurn } from 'node:timers/promises';
import { rowsOf } from './check-tables.ts';
import { encodeKey, isBelow } from './key-bytes.ts';
import { openLmdbTables } from './lmdb-tables.ts';
import { packNumber, unpackEntry } from './row-layout.ts';
import type { Key } from './store.ts';
import type { Row, Tables } from './tables.ts';

/** Digest of a store's content. */
export interface ContentDigest {
  /**
   * SHA-256 of the entries (key, value and expiry time) and of the streams, in a fixed order.
   * Hexadecimal.
   */
  readonly sha256: string;
  readonly entries: number;
  /** Number of stream records. */
  readonly records: number;
}

/** Content that the digest covers. */
export interface DigestOptions {
  /**
   * Key prefix of the rows that belong to one cluster member. The digest omits this prefix from
   * their keys, so that it equals the digest of a standalone store. Default: none.
   */
  readonly own?: Key;
  /** Key prefixes of the entries that are excluded. */
  readonly without: readonly Key[];
  /** Time in milliseconds since 1970. Entries that have expired by then are excluded. */
  readonly at: number;
}

/**
 * Number of bytes at the start of an entry's row that hold its revision. The expiry time follows.
 */
const revisionBytes = 8;
/** Number of rows after which the event loop runs other tasks. */
const rowsPerTurn = 1000;
const streamRows: readonly Key[] = [['consumer'], ['stream']];

/**
 * Computes the digest of a store, even while another process has it open. Concurrent writes may or
 * may not be included.
 * @throws StoreError ERR_STORE_UNAVAILABLE
 */
export async function digestStore(
  directory: string,
  options: DigestOptions,
): Promise<ContentDigest> {
  const tables = openLmdbTables(directory, true);
  try {
    return await digestTables(tables, options);
  } finally {
    await tables.close();
  }
}

async function digestTables(tables: Tables, options: DigestOptions): Promise<ContentDigest> {
  const hash = createHash('sha256');
  const entries = await addRows(hash, entriesOf(tables, options));
  const records = await addRows(hash, rowsOf(tables.records));
  for (const prefix of streamRows) await addRows(hash, rowsOf(tables.meta, encodeKey(prefix)));
  return { sha256: hash.digest('hex'), entries, records };
}

async function addRows(hash: Hash, rows: Iterable<Row>): Promise<number> {
  let count = 0;
  for (const { key, value } of rows) {
    hash.update(packNumber(key.length)).update(key);
    hash.update(packNumber(value.length)).update(value);
    count += 1;
    if (count % rowsPerTurn === 0) await othersTurn();
  }
  // Separates the tables, so that a row of one table cannot be mistaken for a row of the next.
  hash.update(packNumber(-1 - count));
  return count;
}

/**
 * Returns the entries that the digest covers, without their revisions, sorted by key. If a key
 * begins with the prefix `own`, this prefix is removed.
 */
function* entriesOf(tables: Tables, { own, without, at }: DigestOptions): Generator<Row> {
  const ownPrefix = own === undefined ? undefined : encodeKey(own);
  const leftOut = without.map(encodeKey);
  const isCounted = ({ key, value }: Row): boolean =>
    unpackEntry(value).expiresAt > at && !leftOut.some((it) => isBelow(it, key));
  const shared = filter(
    rowsOf(tables.entries),
    (row) => isCounted(row) && !(ownPrefix && isBelow(ownPrefix, row.key)),
  );
  const moved = ownPrefix === undefined ? [] : rowsBehind(tables, ownPrefix);
  for (const row of merge(shared, filter(moved, isCounted))) {
    yield { key: row.key, value: row.value.subarray(revisionBytes) };
  }
}

function* rowsBehind({ entries }: Tables, prefix: Buffer): Generator<Row> {
  for (const { key, value } of rowsOf(entries, prefix)) {
    yield { key: key.subarray(prefix.length), value };
  }
}

function* filter(rows: Iterable<Row>, isWanted: (row: Row) => boolean): Generator<Row> {
  for (const row of rows) if (isWanted(row)) yield row;
}

/** Merges two sorted sequences of rows. */
function* merge(first: Iterator<Row>, second: Iterator<Row>): Generator<Row> {
  let a = first.next();
  let b = second.next();
  while (a.done !== true || b.done !== true) {
    const isFirst = b.done || (a.done !== true && Buffer.compare(a.value.key, b.value.key) <= 0);
    if (isFirst && a.done !== true) {
      yield a.value;
      a = first.next();
    } else if (b.done !== true) {
      yield b.value;
      b = second.next();
    }
  }
}

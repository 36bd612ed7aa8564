/** A digest over what a store holds. Revisions, the layout and the engine make no difference to it. */

import { createHash, type Hash } from 'node:crypto';
import { setImmediate as othersTurn } from 'node:timers/promises';
import { rowsOf } from './check-tables.ts';
import { encodeKey, isBelow } from './key-bytes.ts';
import { openLmdbTables } from './lmdb-tables.ts';
import { packNumber, unpackEntry } from './row-layout.ts';
import type { Key } from './store.ts';
import type { Row, Tables } from './tables.ts';

/** What was counted. */
export interface ContentDigest {
  /** Over keys, values and times of entries, and over streams, in their order; hexadecimal. */
  readonly sha256: string;
  readonly entries: number;
  /** Of streams. */
  readonly records: number;
}

/** What counts. */
export interface DigestOptions {
  /** Entries below this prefix count under the rest of their keys. Default: none do. */
  readonly own?: Key;
  /** Entries below these prefixes do not count. */
  readonly without: readonly Key[];
  /** Entries that have ended by then do not count, milliseconds since 1970. */
  readonly at: number;
}

/** What the row of an entry begins with; the time at which it ends comes next. */
const revisionBytes = 8;
/** Rows between two moments in which others are served. */
const rowsPerTurn = 1000;
const streamRows: readonly Key[] = [['consumer'], ['stream']];

/**
 * Reads a store from one end to the other, also beside the process that has it open; what that
 * writes meanwhile may count or not.
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
  // So that rows of one table are not taken for those of the next one.
  hash.update(packNumber(-1 - count));
  return count;
}

/** Entries without their revisions, in the order of the keys under which they count. */
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

/** The rows of two that are in order, in order. */
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

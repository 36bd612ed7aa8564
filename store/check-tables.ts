import { decodeKey } from './key-bytes.ts';
import { layoutKey, packExpiry, revisionKey, unpackEntry, unpackNumber } from './row-layout.ts';
import { streamHeadKey } from './table-stream.ts';
import type { Row, Table, Tables } from './tables.ts';

/** Result of reading a store completely. */
export interface StoreInspection {
  /** Layout version of the rows. */
  readonly layout: number;
  /** Revision of the last write. */
  readonly revision: number;
  /** Number of entries by the first segment of their key. */
  readonly entries: Readonly<Record<string, number>>;
  /** Number of stream records. */
  readonly records: number;
  /** Inconsistencies, at most a hundred. Empty if the store is valid. */
  readonly problems: readonly string[];
}

const rowsPerStep = 1000;
const maxProblems = 100;

/** Reads every row and checks that the tables are consistent. */
export function checkTables(tables: Tables): StoreInspection {
  const problems: string[] = [];
  const report = (problem: string): void => {
    if (problems.length < maxProblems) problems.push(problem);
  };
  const layout = unpackNumber(tables.meta.get(layoutKey));
  const revision = unpackNumber(tables.meta.get(revisionKey));
  const entries = checkEntries(tables, revision, report);
  checkExpiries(tables, report);
  const records = checkRecords(tables, report);
  return { layout, revision, entries, records, problems };
}

type Report = (problem: string) => void;

function checkEntries(tables: Tables, newest: number, report: Report): Record<string, number> {
  const counts = new Map<string, number>();
  for (const { key, value } of rowsOf(tables.entries)) {
    const [first = ''] = tryRead(() => decodeKey(key)) ?? [];
    const entry = tryRead(() => unpackEntry(value));
    if (first === '' || entry === undefined) {
      report(`an entry cannot be decoded (key: ${key.length} bytes, value: ${value.length} bytes)`);
      continue;
    }
    counts.set(first, (counts.get(first) ?? 0) + 1);
    if (entry.revision > newest)
      report(`an entry whose key begins with ${first} is newer than the last write`);
    const { expiresAt } = entry;
    if (expiresAt === Number.POSITIVE_INFINITY) continue;
    if (tables.expiries.get(packExpiry(expiresAt, key)) === undefined) {
      report(`an entry whose key begins with ${first} has no expiry record and would never expire`);
    }
  }
  return Object.fromEntries(counts);
}

function checkExpiries(tables: Tables, report: Report): void {
  for (const { key } of rowsOf(tables.expiries)) {
    const entryKey = key.subarray(8);
    const record = tables.entries.get(entryKey);
    const entry = record === undefined ? undefined : tryRead(() => unpackEntry(record));
    if (entry === undefined || !packExpiry(entry.expiresAt, entryKey).equals(key)) {
      report('an expiry record has no matching entry');
    }
  }
}

function checkRecords(tables: Tables, report: Report): number {
  let count = 0;
  for (const { key } of rowsOf(tables.records)) {
    count += 1;
    const [name = ''] = tryRead(() => decodeKey(key.subarray(0, -8))) ?? [];
    const head = tryRead(() => unpackNumber(tables.meta.get(streamHeadKey(name)))) ?? 0;
    if (key.readDoubleBE(key.length - 8) > head)
      report('a stream has records after its last sequence number');
  }
  return count;
}

/** Returns the rows of a table whose keys begin with these bytes (default: all), read in steps. */
export function* rowsOf(table: Table, prefix: Buffer = Buffer.alloc(0)): Generator<Row> {
  let from = prefix;
  const to = Buffer.concat([prefix, Buffer.alloc(1200, 0xff)]);
  for (;;) {
    const rows = table.range({ from, to, limit: rowsPerStep });
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsPerStep) return;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
}

function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

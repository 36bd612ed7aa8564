import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDirectoryLocked } from './directory.ts';
import { openLmdbTables } from './embedded.ts';
import { StoreError } from './errors.ts';
import type { Store } from './store.ts';
import {
  checkSignature,
  decodeKey,
  layoutKey,
  layoutVersion,
  packExpiry,
  readLayout,
  revisionKey,
  streamHeadKey,
  TableStore,
  unpackEntry,
  unpackNumber,
} from './table-store.ts';
import type { Row, Table, Tables } from './tables.ts';

const program = fileURLToPath(new URL('./inspect-program.ts', import.meta.url));

/** What the program sends. */
export type InspectionMessage = { readonly found: StoreInspection } | { readonly failed: string };

/**
 * Reads a whole store, also beside the process that has it open, and changes nothing. It is done
 * in a process of its own, because LMDB trusts its file: a damaged one can end the process.
 * @throws StoreError ERR_STORE_CORRUPT; ERR_STORE_UNAVAILABLE when there is none
 */
export async function inspectStore(directory: string): Promise<StoreInspection> {
  const data = path.join(directory, 'data.mdb');
  const found = await stat(data).catch((cause: unknown) => {
    throw new StoreError('ERR_STORE_UNAVAILABLE', `there is no store in ${directory}`, { cause });
  });
  if (found.size === 0) return { layout: 0, revision: 0, entries: {}, records: 0, problems: [] };
  await checkSignature(data);
  const child = fork(program, [directory], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  let message: InspectionMessage | undefined;
  child.on('message', (told: InspectionMessage) => {
    message = told;
  });
  await once(child, 'close');
  if (message === undefined) {
    throw new StoreError('ERR_STORE_CORRUPT', `${data} is damaged: reading it ended the reader`);
  }
  if ('failed' in message) throw new StoreError('ERR_STORE_CORRUPT', `${data}: ${message.failed}`);
  return message.found;
}

/** What was found in a store that was read from one end to the other. */
export interface StoreInspection {
  /** How its rows are laid out; see the catalogue of errors for one that is not known. */
  readonly layout: number;
  /** Of the last write. */
  readonly revision: number;
  /** Entries by the first segment of their key. */
  readonly entries: Readonly<Record<string, number>>;
  /** Records of streams. */
  readonly records: number;
  /** What is not as it is written; empty if all is well. At most a hundred are named. */
  readonly problems: readonly string[];
}

const rowsPerStep = 1000;
const maxProblems = 100;

/** Reads every row and compares what must fit together. */
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
      report(`an entry of ${key.length} and ${value.length} bytes cannot be read`);
      continue;
    }
    counts.set(first, (counts.get(first) ?? 0) + 1);
    if (entry.revision > newest) report(`an entry under ${first} is newer than the last write`);
    const { expiresAt } = entry;
    if (expiresAt === Number.POSITIVE_INFINITY) continue;
    if (tables.expiries.get(packExpiry(expiresAt, key)) === undefined) {
      report(`an entry under ${first} would never expire`);
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
      report('an expiry has no entry');
    }
  }
}

function checkRecords(tables: Tables, report: Report): number {
  let count = 0;
  for (const { key } of rowsOf(tables.records)) {
    count += 1;
    const [name = ''] = tryRead(() => decodeKey(key.subarray(0, -8))) ?? [];
    const head = tryRead(() => unpackNumber(tables.meta.get(streamHeadKey(name)))) ?? 0;
    if (key.readDoubleBE(key.length - 8) > head) report('a stream goes beyond its end');
  }
  return count;
}

/** The rows of a table whose keys begin with these bytes (default: all), in steps. */
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

// Inspection of a store that no process has open; nothing is changed.

/**
 * Reads an embedded store. It is made by nobody, and modes stay as they are. Entries that have
 * expired may still be there.
 * @param read - may use the store until its promise settles
 * @returns what `read` gives; `undefined` if there is no store, or one of an older layout, which
 * the next start of a master upgrades
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_CORRUPT, ERR_STORE_VERSION, ERR_STORE_UNAVAILABLE
 */
export async function readStore<T>(
  directory: string,
  read: (store: Pick<Store, 'get' | 'list'>) => Promise<T>,
): Promise<T | undefined> {
  const data = path.join(directory, 'data.mdb');
  if (!(await hasContent(data))) return undefined;
  if (await isDirectoryLocked(await realpath(directory))) {
    throw new StoreError('ERR_STORE_LOCKED', `${directory} is in use by a process`);
  }
  await checkSignature(data);
  const tables = openLmdbTables(directory, true);
  // At this time nothing has expired, so that nothing is swept away.
  const store = new TableStore(tables, () => 0);
  try {
    return readLayout(tables, directory) < layoutVersion ? undefined : await read(store);
  } finally {
    await store.close();
  }
}

/**
 * Copies a store into a new directory, as it was at one moment; a process may have it open.
 * @throws StoreError ERR_STORE_UNAVAILABLE where there is none; ERR_STORE_CORRUPT,
 * ERR_STORE_VERSION, ERR_STORE_FULL
 */
export async function copyStore(directory: string, target: string): Promise<void> {
  const data = path.join(directory, 'data.mdb');
  if (!(await hasContent(data))) {
    throw new StoreError('ERR_STORE_UNAVAILABLE', `there is no store in ${directory}`);
  }
  await checkSignature(data);
  await mkdir(target, { mode: 0o700 });
  const tables = openLmdbTables(directory, true);
  try {
    readLayout(tables, directory);
    await tables.copyTo(target);
  } finally {
    await tables.close();
  }
}

async function hasContent(file: string): Promise<boolean> {
  try {
    return (await stat(file)).size > 0;
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return false;
    throw new StoreError('ERR_STORE_UNAVAILABLE', `${file} cannot be read`, { cause });
  }
}

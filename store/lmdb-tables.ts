/** Tables in LMDB. */

import { readFileSync } from 'node:fs';
import { open as openFile, statfs } from 'node:fs/promises';
import { type Database, open, type RootDatabase } from 'lmdb';
import { diskFullMessage, StoreError, storeUnavailable } from './errors.ts';
import { GroupCommit } from './group-commit.ts';
import type { Row, RowRange, Table, Tables } from './tables.ts';

const binary = { keyEncoding: 'binary', encoding: 'binary' } as const;

/** ENOSPC, EFBIG and EDQUOT as LMDB gives them. */
const fullCodes: ReadonlySet<unknown> = new Set([28, 27, 122]);
/** EIO: of a failing disk, but also what LMDB gives when only a part of a write found room. */
const inputOutputError = 5;
/** With less room than this, a part of a write is more likely: more than the largest request. */
const lowSpaceBytes = 128 * 1024 * 1024;

/** Tables in an LMDB environment. */
export interface LmdbTables extends Tables {
  /** Writes a consistent copy, without free pages, as `data.mdb` in an existing directory. */
  copyTo(directory: string): Promise<void>;
}

/**
 * Opens or creates an LMDB environment in a directory. Transactions asked for while one is being
 * synchronised share the next commit.
 * @param isReadOnly - opens one that exists, also beside the process that writes it
 * @throws StoreError ERR_STORE_UNAVAILABLE, ERR_STORE_FULL
 */
export function openLmdbTables(directory: string, isReadOnly = false): LmdbTables {
  try {
    // Without overlapping synchronisation a promise resolves when the data and then the page
    // that points to it are on disk. Measured with 1, 64 and 1,000 writes under way: overlapping
    // and waiting for `flushed` is not reliably faster.
    const environment = open<Buffer, Buffer>({
      path: directory,
      maxDbs: 4,
      overlappingSync: false,
      // With it, lmdb makes a promise for each batch that only it knows: a commit that fails
      // would be an unhandled rejection, which ends the process.
      eventTurnBatching: false,
      readOnly: isReadOnly,
      ...binary,
    });
    return tablesOf(environment, directory);
  } catch (cause) {
    throw engineFailure(`the store in ${directory} could not be opened`, cause);
  }
}

function tablesOf(environment: RootDatabase<Buffer, Buffer>, directory: string): LmdbTables {
  const table = (name: string): Table => new LmdbTable(environment.openDB({ name, ...binary }));
  const commits = new GroupCommit(
    // A child transaction, so that a group that throws is taken back.
    (work) => environment.childTransaction(work),
    async (cause) =>
      engineFailure('a write failed', await toStoreError(cause), await isLowOnSpace(directory)),
  );
  return {
    entries: table('entries'),
    expiries: table('expiries'),
    records: table('records'),
    meta: table('meta'),
    transaction: (work) => commits.run(work),
    copyTo: async (target) => {
      try {
        await environment.backup(target, true);
      } catch (cause) {
        throw engineFailure('the store could not be copied', cause);
      }
    },
    close: () => environment.close(),
  };
}

class LmdbTable implements Table {
  readonly #database: Database<Buffer, Buffer>;

  constructor(database: Database<Buffer, Buffer>) {
    this.#database = database;
  }

  get(key: Buffer): Buffer | undefined {
    return this.#database.getBinary(key);
  }

  put(key: Buffer, value: Buffer): void {
    this.#database.putSync(key, value);
  }

  remove(key: Buffer): void {
    this.#database.removeSync(key);
  }

  range({ from, to, limit, reverse = false }: RowRange): Row[] {
    const bounds = reverse
      ? { start: to, exclusiveStart: true, end: from, inclusiveEnd: true }
      : { start: from, end: to };
    const count = limit === undefined || limit === Number.POSITIVE_INFINITY ? {} : { limit };
    return Array.from(this.#database.getRange({ ...bounds, ...count, reverse }), (row) => ({
      key: Buffer.from(row.key),
      value: Buffer.from(row.value),
    }));
  }
}

/**
 * Why a commit failed. lmdb gives it as a promise on the error, rejected in the same turn; nobody
 * else handles it.
 */
async function toStoreError(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error;
  const told = Promise.resolve(error.commitError).then(
    () => error,
    (cause: unknown) => cause,
  );
  const untold = new Promise((resolve) => {
    setImmediate(() => resolve(error));
  });
  return Promise.race([told, untold]);
}

async function isLowOnSpace(directory: string): Promise<boolean> {
  const disk = await statfs(directory).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize < lowSpaceBytes;
}

function engineFailure(what: string, cause: unknown, hasLittleRoom = false): StoreError {
  if (cause instanceof Error && isFull(cause, hasLittleRoom)) {
    return new StoreError('ERR_STORE_FULL', diskFullMessage, { cause });
  }
  return storeUnavailable(what, cause);
}

function isFull(error: Error, hasLittleRoom: boolean): boolean {
  if ('code' in error) {
    return fullCodes.has(error.code) || (hasLittleRoom && error.code === inputOutputError);
  }
  // The copy gives its reason as text alone.
  return /no space left|quota exceeded|file too large/i.test(error.message);
}

/** The library that holds the files of an embedded store, for instance `lmdb 3.5.6`. */
export function engineVersion(): string {
  const file = new URL('package.json', import.meta.resolve('lmdb'));
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'));
  return `lmdb ${version}`;
}

/**
 * LMDB ends the process when it is given a file that is not its own, so look first.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export async function checkSignature(file: string): Promise<void> {
  const signatureOffset = 24;
  const signature = 0xbeefc0de;
  const handle = await openFile(file);
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

/** Tables in LMDB. */

import { readFileSync } from 'node:fs';
import { open as openFile, statfs } from 'node:fs/promises';
import { type Database, open, type RootDatabase } from 'lmdb';
import { diskFullMessage, StoreError, storeUnavailable } from './errors.ts';
import { GroupCommit } from './group-commit.ts';
import type { KeyRange, Row, RowRange, Table, Tables } from './tables.ts';

const binary = { keyEncoding: 'binary', encoding: 'binary' } as const;

/** LMDB's codes for ENOSPC, EFBIG and EDQUOT. */
const fullCodes: ReadonlySet<unknown> = new Set([28, 27, 122]);
/**
 * EIO. It usually means a failing disk, but LMDB also returns it if the disk had space for only a
 * part of a write.
 */
const inputOutputError = 5;
/**
 * Minimum free space at which the error EIO is treated as an error of the disk, in bytes. With less
 * free space, EIO is treated as a full disk. The value exceeds the size of the largest write
 * request.
 */
const lowSpaceBytes = 128 * 1024 * 1024;

/** Tables in an LMDB environment. */
export interface LmdbTables extends Tables {
  /** Writes a consistent copy, without free pages, as `data.mdb` into an existing directory. */
  copyTo(directory: string): Promise<void>;
}

/**
 * Opens or creates an LMDB environment in a directory. While one commit is being synchronised to
 * disk, new transactions wait and then share the next commit.
 * @param isReadOnly - opens an existing environment for reading. Another process may write to it at
 * the same time
 * @throws StoreError ERR_STORE_UNAVAILABLE, ERR_STORE_FULL
 */
export function openLmdbTables(directory: string, isReadOnly = false): LmdbTables {
  try {
    // When overlapping synchronisation is off, a promise resolves only after the data and the page
    // that points to the data are on disk. In measurements with 1, 64 and 1,000 concurrent writes,
    // turning it on and waiting for `flushed` was not reliably faster.
    const environment = open<Buffer, Buffer>({
      path: directory,
      maxDbs: 4,
      overlappingSync: false,
      // Event turn batching would make lmdb create an internal promise for each batch. A failed
      // commit would then cause an unhandled rejection, which ends the process.
      eventTurnBatching: false,
      readOnly: isReadOnly,
      ...binary,
    });
    return tablesOf(environment, directory);
  } catch (cause) {
    throw engineFailure(`cannot open the store in ${directory}`, cause);
  }
}

function tablesOf(environment: RootDatabase<Buffer, Buffer>, directory: string): LmdbTables {
  const table = (name: string): Table => new LmdbTable(environment.openDB({ name, ...binary }));
  const commits = new GroupCommit(
    // If a group throws, its child transaction is rolled back.
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
        throw engineFailure('cannot copy the store', cause);
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

  range({ from, to, limit, maxBytes = Infinity, reverse = false }: RowRange): Row[] {
    const bounds = reverse
      ? { start: to, exclusiveStart: true, end: from, inclusiveEnd: true }
      : { start: from, end: to };
    const count = limit === undefined || limit === Number.POSITIVE_INFINITY ? {} : { limit };
    const rows: Row[] = [];
    let bytes = 0;
    for (const { key, value } of this.#database.getRange({ ...bounds, ...count, reverse })) {
      rows.push({ key: Buffer.from(key), value: Buffer.from(value) });
      bytes += value.length;
      if (bytes >= maxBytes) break;
    }
    return rows;
  }

  keys({ from, to, limit }: KeyRange): Buffer[] {
    const range = { start: from, end: to, ...(limit === undefined ? {} : { limit }) };
    return [...this.#database.getKeys(range)].map((key) => Buffer.from(key));
  }
}

/**
 * Returns the reason of a failed commit. lmdb attaches the reason to the error, as a promise that
 * is already about to reject. This function also handles the rejection, because lmdb does not.
 */
async function toStoreError(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error;
  const rejection = Promise.resolve(error.commitError).then(
    () => error,
    (cause: unknown) => cause,
  );
  const timeout = new Promise((resolve) => {
    setImmediate(() => resolve(error));
  });
  return Promise.race([rejection, timeout]);
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
  // LMDB's copy function reports the reason only in its message.
  return /no space left|quota exceeded|file too large/i.test(error.message);
}

/** Returns the name and version of the library for embedded stores, for example `lmdb 3.5.6`. */
export function engineVersion(): string {
  const file = new URL('package.json', import.meta.resolve('lmdb'));
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'));
  return `lmdb ${version}`;
}

/**
 * Checks that a file is an LMDB database, because LMDB crashes the process on any other file.
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

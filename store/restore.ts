import { lchown, link, mkdir, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { ifPresent, isDiskFull, syncDirectory, syncFile } from '#runtime';
import { fileTimestamp, readBackup } from './backup.ts';
import { checkTables, type StoreInspection } from './check-tables.ts';
import { type DirectoryLock, lockDirectory } from './directory.ts';
import { prepareStoreDirectory } from './embedded.ts';
import { StoreError } from './errors.ts';
import { openLmdbTables } from './lmdb-tables.ts';
import { layoutVersion } from './row-layout.ts';
import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';

/** Backup to restore, and the store that it replaces. */
export interface RestoreOptions {
  /** Backup file that `EmbeddedStore.backup` or an upgrade of the layout has written. */
  readonly file: string;
  /** Directory of the store to replace. It is created if it is missing. */
  readonly directory: string;
  /** Changes the restored store before it replaces the old one. Default: no change. */
  readonly adapt?: (store: Store) => Promise<void>;
  /** Clock, in milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/** Result of a restore. */
export interface RestoreReceipt {
  /**
   * Summary of the restored store: its layout version, the numbers of its entries, and problems.
   */
  readonly restored: StoreInspection;
  /** Directory with the previous store, or `undefined` if there was none. */
  readonly old: string | undefined;
}

/**
 * Replaces the store in a directory by the content of a backup. No process may have the store open.
 * This function reads and verifies the whole backup first. Then it keeps the old store in another
 * directory beside it. After an interruption, the directory contains either the complete old store
 * or the complete restored store.
 * @throws StoreError ERR_STORE_LOCKED if a process has the store open; ERR_STORE_CORRUPT or
 * ERR_STORE_VERSION for a backup that this version cannot use; ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export async function restoreStore(options: RestoreOptions): Promise<RestoreReceipt> {
  const now = options.now ?? Date.now;
  const directory = await prepareStoreDirectory(options.directory);
  const lock = await lockDirectory(directory);
  const prefix = `${directory}-restoring-`;
  try {
    // This process holds the lock, so no other restore is running. These files are left over from a
    // restore that was killed.
    await removeAll(prefix);
    const fresh = await mkdtemp(prefix);
    try {
      const data = path.join(fresh, 'data.mdb');
      await extract(options.file, data);
      const restored = await checkRestored(fresh, options);
      await syncFile(data);
      const old = await keepReplacedStore(directory, new Date(now()));
      await chownToDirectoryOwner(directory, [data, ...(old === undefined ? [] : [old])], lock);
      // The old and the restored store are exchanged in one step, so that a store exists at every
      // moment.
      await rename(data, path.join(directory, 'data.mdb'));
      await syncDirectory(directory);
      return { restored, old };
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  } catch (cause) {
    throw asStoreError(cause);
  } finally {
    await lock.release();
  }
}

async function removeAll(prefix: string): Promise<void> {
  const parent = path.dirname(prefix);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(path.basename(prefix))) continue;
    await rm(path.join(parent, name), { recursive: true, force: true });
  }
}

async function extract(file: string, data: string): Promise<void> {
  const handle = await open(data, 'wx', 0o600);
  try {
    await readBackup(file, async (chunk) => {
      await handle.writeFile(chunk);
    });
  } finally {
    await handle.close();
  }
}

/**
 * Checks the tables of the restored store, and then calls the option `adapt` with the store. LMDB
 * can safely open the file, because the checksum of the backup was verified (see `checkSignature`
 * in lmdb-tables.ts).
 */
async function checkRestored(
  directory: string,
  { file, adapt, now = Date.now }: RestoreOptions,
): Promise<StoreInspection> {
  const tables = openLmdbTables(directory);
  // The restored store may belong to a cluster member. The cluster log then decides when rows
  // expire, so this store removes no expired rows.
  const store = new TableStore(tables, now, adapt !== undefined);
  try {
    const found = checkTables(tables);
    if (found.layout > layoutVersion) {
      throw new StoreError(
        'ERR_STORE_VERSION',
        `${file} has layout ${found.layout}; this version supports layouts up to ${layoutVersion}`,
      );
    }
    const [problem] = found.problems;
    if (problem !== undefined) throw new StoreError('ERR_STORE_CORRUPT', `${file}: ${problem}`);
    await adapt?.(store);
    return found;
  } finally {
    await store.close();
  }
}

async function keepReplacedStore(directory: string, now: Date): Promise<string | undefined> {
  const data = path.join(directory, 'data.mdb');
  const found = await ifPresent(stat(data));
  if (found === undefined || found.size === 0) return undefined;
  const old = `${directory}-before-restore-${fileTimestamp(now)}`;
  await mkdir(old, { mode: 0o700 });
  await link(data, path.join(old, 'data.mdb'));
  await syncDirectory(old);
  await syncDirectory(path.dirname(old));
  return old;
}

/**
 * If this process runs as root, changes the owner of the restored files to the owner of the
 * directory above the store.
 */
async function chownToDirectoryOwner(
  directory: string,
  made: readonly string[],
  lock: DirectoryLock,
): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(path.dirname(directory));
  for (const file of [directory, ...made]) await lchown(file, uid, gid);
  await lock.giveTo(uid, gid);
}

function asStoreError(cause: unknown): unknown {
  if (!isDiskFull(cause)) return cause;
  return new StoreError('ERR_STORE_FULL', 'the disk is full: cannot write the restored store', {
    cause,
  });
}

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { type BackupReceipt, writeBackup } from './backup.ts';
import {
  type DirectoryLock,
  lockDirectory,
  preparePrivateDirectory,
  preparePrivateFile,
  probeFreeSpace,
} from './directory.ts';
import { DiskSpaceGuard } from './disk-space.ts';
import { StoreError, storeUnavailable } from './errors.ts';
import { HolderRecord, type StoreHolder } from './holder-record.ts';
import { encodeKey } from './key-bytes.ts';
import { checkSignature, type LmdbTables, openLmdbTables } from './lmdb-tables.ts';
import { logStateKey } from './row-layout.ts';
import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';
import type { Tables } from './tables.ts';
import { type StoreUpgrade, upgradeTables } from './upgrade.ts';

/** Size of LMDB's lock file for 126 readers, rounded up to whole pages, in bytes. */
const lockFileBytes = 12_288;

/** Size of an empty store, rounded up to whole pages, in bytes. */
const newStoreBytes = 32_768;

/** Options of {@link openEmbeddedStore}. */
export interface EmbeddedStoreOptions {
  /**
   * Directory of the store. It is created if it is missing and made private to its owner (0700,
   * files 0600). A directory is rejected if others can write to it or to one of its parents.
   */
  readonly directory: string;
  /** Clock for expiry, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Called with `true` when the disk is full, and with `false` when it has free space again. */
  readonly onFull?: ((isFull: boolean) => void) | undefined;
  /** Called after a store of an older layout was upgraded. */
  readonly onUpgrade?: (upgrade: StoreUpgrade) => void;
  /** Called once, when a write detects that another process has taken over the store. */
  readonly onFenced?: (error: StoreError) => void;
}

/** A {@link Store} in a directory of the local disk. */
export interface EmbeddedStore extends Store {
  /** Whether writes are rejected with ERR_STORE_FULL until the disk has free space. */
  readonly isFull: boolean;
  /** Identity of this process, as recorded in the store. */
  readonly holder: StoreHolder;
  /**
   * Creates a backup that is a consistent snapshot of the store, while the store is in use. The
   * file (0600) appears only when it is complete. Secrets in it stay encrypted.
   * @param target - path of a new file, or an existing directory, in which the file is named after
   * the current time
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  backup(target: string): Promise<BackupReceipt>;
}

/**
 * Opens an LMDB store in a directory of the local disk. Only one process can have it open. If the
 * store has an older layout, it is backed up beside the directory and then upgraded.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_PERMISSIONS, ERR_STORE_CORRUPT, ERR_STORE_VERSION,
 * ERR_STORE_FULL, ERR_STORE_UNAVAILABLE; ERR_CLUSTER_LOG for the store of a cluster member
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  const held = await openHeldTables(options);
  if (held.tables.meta.get(logStateKey) !== undefined) {
    await held.tables.close();
    const message = `${options.directory} is the store of a cluster member; configure saltbridge: cluster to open it, or detach it with saltbridge cluster leave`;
    throw new StoreError('ERR_CLUSTER_LOG', message);
  }
  return new LmdbStore(held);
}

/**
 * Converts the store of a former cluster member to a standalone store. The store must be closed.
 */
export async function detachFromLog(directory: string): Promise<void> {
  const { tables } = await openHeldTables({ directory });
  try {
    await tables.transaction(() => tables.meta.remove(logStateKey));
  } finally {
    await tables.close();
  }
}

class LmdbStore extends TableStore implements EmbeddedStore {
  readonly #held: HeldTables;

  constructor(held: HeldTables) {
    super(held.tables, held.now);
    this.#held = held;
  }

  get holder(): StoreHolder {
    return this.#held.holder;
  }

  get isFull(): boolean {
    return this.#held.isFull;
  }

  backup(target: string): Promise<BackupReceipt> {
    return this.busy(() => this.#held.backup(target));
  }
}

/** Opens the tables of a directory and locks it, as {@link openEmbeddedStore} does. */
export async function openHeldTables(options: EmbeddedStoreOptions): Promise<HeldTables> {
  const directory = await prepareStoreDirectory(options.directory);
  const lock = await lockDirectory(directory);
  try {
    const now = options.now ?? Date.now;
    const tables = await openTables(directory);
    const upgrade = await closeOnFailure(tables, () =>
      upgradeTables(tables, directory, new Date(now())),
    );
    if (upgrade !== undefined) options.onUpgrade?.(upgrade);
    const held = new HeldTables(tables, lock, { ...options, now });
    await closeOnFailure(held.tables, () => held.recordHolder());
    return held;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Tables of a directory that this process has locked. */
export class HeldTables {
  /**
   * The tables. Their transactions fail while the disk is full, and after another process has taken
   * over the directory.
   */
  readonly tables: Tables;
  readonly now: () => number;
  readonly #lmdb: LmdbTables;
  readonly #space: DiskSpaceGuard;
  readonly #holder: HolderRecord;

  constructor(
    tables: LmdbTables,
    lock: DirectoryLock,
    { now = Date.now, onFull = () => {}, onFenced }: EmbeddedStoreOptions,
  ) {
    const space = new DiskSpaceGuard(() => probeSpace(tables), onFull);
    const close = async (): Promise<void> => {
      space.stop();
      await tables.close();
      await lock.release();
    };
    const holder = new HolderRecord(tables, lock, onFenced);
    const transaction = <T>(work: () => T): Promise<T> =>
      space.guard(() =>
        tables.transaction(() => {
          holder.assert();
          return work();
        }),
      );
    this.tables = { ...tables, transaction, close };
    this.now = now;
    this.#lmdb = tables;
    this.#space = space;
    this.#holder = holder;
  }

  get holder(): StoreHolder {
    return this.#holder.holder;
  }

  get isFull(): boolean {
    return this.#space.isFull;
  }

  /**
   * Writes the identity of this process to the store. If the disk is full, the next successful
   * write also writes the identity.
   */
  async recordHolder(): Promise<void> {
    try {
      await this.#space.guard(() => this.#lmdb.transaction(() => this.#holder.assert()));
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'ERR_STORE_FULL')) throw error;
    }
  }

  /**
   * Creates a backup.
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  backup(target: string): Promise<BackupReceipt> {
    return writeBackup((directory) => this.#lmdb.copyTo(directory), target, new Date(this.now()));
  }
}

const probeKey = encodeKey(['probe']);
const probeBytes = 256 * 1024;

/**
 * Tests for free space by writing a large row and removing it. Afterwards the database file keeps
 * its size, so it has space for small writes.
 */
async function probeSpace(tables: Tables): Promise<void> {
  await tables.transaction(() => tables.meta.put(probeKey, Buffer.alloc(probeBytes)));
  await tables.transaction(() => tables.meta.remove(probeKey));
}

/**
 * Creates the directory if it is missing, and returns its real path.
 * @throws StoreError ERR_STORE_PERMISSIONS, ERR_STORE_UNAVAILABLE
 */
export async function prepareStoreDirectory(directory: string): Promise<string> {
  try {
    return await preparePrivateDirectory(directory);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw storeUnavailable(`cannot use ${directory}`, cause);
  }
}

async function openTables(directory: string): Promise<LmdbTables> {
  const data = path.join(directory, 'data.mdb');
  await preparePrivateFile(data);
  await preparePrivateFile(path.join(directory, 'lock.mdb'), lockFileBytes);
  await checkSignature(data);
  // LMDB crashes the process if there is no space for its first pages.
  if ((await stat(data)).size < newStoreBytes) await probeFreeSpace(directory, newStoreBytes);
  return openLmdbTables(directory);
}

async function closeOnFailure<T>(
  opened: Pick<Tables, 'close'>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await opened.close();
    throw error;
  }
}

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

/** As large as LMDB makes it for 126 readers, and on whole pages. */
const lockFileBytes = 12_288;

/** What an empty store takes, on whole pages. */
const newStoreBytes = 32_768;

/** How the embedded store is opened. */
export interface EmbeddedStoreOptions {
  /**
   * Where it lives. Made if it is missing; private to its owner (0700, files 0600) afterwards.
   * A directory that others can write to, or whose parents they can, is refused.
   */
  readonly directory: string;
  /** The clock that entries expire by, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Told when its disk is found full, and when there is room again. */
  readonly onFull?: ((isFull: boolean) => void) | undefined;
  /** Told when a store of an older layout has been brought to the present one. */
  readonly onUpgrade?: (upgrade: StoreUpgrade) => void;
  /** Told once, when a write finds that another process has taken the store over. */
  readonly onFenced?: (error: StoreError) => void;
}

/** A {@link Store} in a directory of the local disk. */
export interface EmbeddedStore extends Store {
  /** Whether writes are refused with ERR_STORE_FULL until there is room again. */
  readonly isFull: boolean;
  /** This process, as it is recorded in the store. */
  readonly holder: StoreHolder;
  /**
   * Makes a backup while the store is in use, as it was at one moment: a file (0600) that appears
   * whole or not at all. Secrets in it stay sealed.
   * @param target - a file that is not there, or a directory, where it is named by the time
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  backup(target: string): Promise<BackupReceipt>;
}

/**
 * Opens a store in a directory of the local disk, in LMDB. One process has it open at a time.
 * A store of an older layout is upgraded; the old one is kept beside it as a backup.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_PERMISSIONS, ERR_STORE_CORRUPT,
 * ERR_STORE_VERSION, ERR_STORE_FULL, ERR_STORE_UNAVAILABLE, ERR_CLUSTER_LOG for that of a cluster
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  const held = await openHeldTables(options);
  if (held.tables.meta.get(logStateKey) !== undefined) {
    await held.tables.close();
    const message = `${options.directory} is the store of a member of a cluster; saltbridge: cluster opens it, and saltbridge cluster leave makes it a store of its own`;
    throw new StoreError('ERR_CLUSTER_LOG', message);
  }
  return new LmdbStore(held);
}

/** Makes the store of a former member of a cluster one of its own. No process may have it open. */
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

/**
 * Opens the tables of a directory that this process holds from now on, as
 * {@link openEmbeddedStore} does.
 */
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

/** Tables of a directory that this process holds. */
export class HeldTables {
  /** Their transactions fail on a full disk, and once another process holds the directory. */
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

  /** A disk that is full takes it with the first write that finds room. */
  async recordHolder(): Promise<void> {
    try {
      await this.#space.guard(() => this.#lmdb.transaction(() => this.#holder.assert()));
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'ERR_STORE_FULL')) throw error;
    }
  }

  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  backup(target: string): Promise<BackupReceipt> {
    return writeBackup((directory) => this.#lmdb.copyTo(directory), target, new Date(this.now()));
  }
}

const probeKey = encodeKey(['probe']);
const probeBytes = 256 * 1024;

/** The room that it took stays with the file, so that small writes find some afterwards. */
async function probeSpace(tables: Tables): Promise<void> {
  await tables.transaction(() => tables.meta.put(probeKey, Buffer.alloc(probeBytes)));
  await tables.transaction(() => tables.meta.remove(probeKey));
}

/**
 * Makes the directory if it is missing, and gives its real path.
 * @throws StoreError ERR_STORE_PERMISSIONS, ERR_STORE_UNAVAILABLE
 */
export async function prepareStoreDirectory(directory: string): Promise<string> {
  try {
    return await preparePrivateDirectory(directory);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw storeUnavailable(`${directory} cannot be used`, cause);
  }
}

async function openTables(directory: string): Promise<LmdbTables> {
  const data = path.join(directory, 'data.mdb');
  await preparePrivateFile(data);
  await preparePrivateFile(path.join(directory, 'lock.mdb'), lockFileBytes);
  await checkSignature(data);
  // LMDB ends the process where there is no room for its first pages.
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

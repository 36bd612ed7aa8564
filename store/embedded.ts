import { stat } from 'node:fs/promises';
import path from 'node:path';
import { type BackupReceipt, writeBackup } from './backup.ts';
import { preparePrivateDirectory, preparePrivateFile, proveRoom } from './directory.ts';
import { type DirectoryLock, lockDirectory } from './directory-lock.ts';
import { StoreError, unavailable } from './errors.ts';
import { HolderRecord, type StoreHolder } from './holder.ts';
import { encodeKey } from './key.ts';
import { checkSignature } from './layout.ts';
import { type LmdbTables, openLmdbTables } from './lmdb-tables.ts';
import { SpaceWatch } from './space-watch.ts';
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
  readonly onFull?: (isFull: boolean) => void;
  /** Told when a store of an older layout has been brought to the present one. */
  readonly onUpgrade?: (upgrade: StoreUpgrade) => void;
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
 * ERR_STORE_VERSION, ERR_STORE_FULL, ERR_STORE_UNAVAILABLE
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  const directory = await prepareStoreDirectory(options.directory);
  const lock = await lockDirectory(directory);
  try {
    const now = options.now ?? Date.now;
    const tables = await openTables(directory);
    const upgrade = await closeOnFailure(tables, () =>
      upgradeTables(tables, directory, new Date(now())),
    );
    if (upgrade !== undefined) options.onUpgrade?.(upgrade);
    const store = new LmdbStore({ tables, lock, now, onFull: options.onFull ?? (() => {}) });
    await closeOnFailure(store, () => store.recordHolder());
    return store;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

interface LmdbStoreParts {
  readonly tables: LmdbTables;
  readonly lock: DirectoryLock;
  readonly now: () => number;
  readonly onFull: (isFull: boolean) => void;
}

class LmdbStore extends TableStore implements EmbeddedStore {
  readonly #tables: LmdbTables;
  readonly #space: SpaceWatch;
  readonly #now: () => number;
  readonly #holder: HolderRecord;

  constructor({ tables, lock, now, onFull }: LmdbStoreParts) {
    const space = new SpaceWatch({ probe: () => probeSpace(tables), onChange: onFull });
    const close = async (): Promise<void> => {
      space.stop();
      await tables.close();
      await lock.release();
    };
    const holder = new HolderRecord(tables, lock);
    const transaction = <T>(work: () => T): Promise<T> =>
      space.guard(() =>
        tables.transaction(() => {
          holder.assert();
          return work();
        }),
      );
    super({ ...tables, transaction, close }, now);
    this.#tables = tables;
    this.#space = space;
    this.#now = now;
    this.#holder = holder;
  }

  get holder(): StoreHolder {
    return this.#holder.holder;
  }

  /** A disk that is full takes it with the first write that finds room. */
  async recordHolder(): Promise<void> {
    try {
      await this.#space.guard(() => this.#tables.transaction(() => this.#holder.assert()));
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'ERR_STORE_FULL')) throw error;
    }
  }

  get isFull(): boolean {
    return this.#space.isFull;
  }

  backup(target: string): Promise<BackupReceipt> {
    return this.busy(() =>
      writeBackup((directory) => this.#tables.copyTo(directory), target, new Date(this.#now())),
    );
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
    throw unavailable(`${directory} cannot be used`, cause);
  }
}

async function openTables(directory: string): Promise<LmdbTables> {
  const data = path.join(directory, 'data.mdb');
  await preparePrivateFile(data);
  await preparePrivateFile(path.join(directory, 'lock.mdb'), lockFileBytes);
  await checkSignature(data);
  // LMDB ends the process where there is no room for its first pages.
  if ((await stat(data)).size < newStoreBytes) await proveRoom(directory, newStoreBytes);
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

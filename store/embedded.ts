import { rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type BackupReceipt, writeBackup } from './backup.ts';
import {
  type DirectoryLock,
  type LockHolder,
  lockDirectory,
  preparePrivateDirectory,
  preparePrivateFile,
  probeFreeSpace,
} from './directory.ts';
import {
  checkSignature,
  encodeKey,
  layoutKey,
  layoutVersion,
  packNumber,
  readLayout,
} from './encoding.ts';
import { StoreError, storeUnavailable } from './errors.ts';
import { DiskSpaceGuard, type LmdbTables, openLmdbTables } from './lmdb-tables.ts';
import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';
import type { Table, Tables } from './tables.ts';

// The holder of a store, as recorded in the store.

/** The process that has a store, and how many have had it: what was made under another epoch is past. */
interface StoreHolder extends LockHolder {
  /** Higher than that of every process that had the store before, and than after a restore. */
  readonly epoch: number;
}

const holderKey = encodeKey(['holder']);

/**
 * The record of this process in the store. Each write looks for it in its own transaction, so that
 * a process which was replaced writes nothing more, however that came about and however late it
 * notices.
 */
class HolderRecord {
  readonly holder: StoreHolder;
  readonly #meta: Table;
  readonly #own: Buffer;
  /** As it was when the store was opened; a disk that was full then has it still. */
  readonly #previous: Buffer | undefined;
  #onFenced: ((error: StoreError) => void) | undefined;

  constructor(
    { meta }: Pick<Tables, 'meta'>,
    { holder, generation }: DirectoryLock,
    onFenced: EmbeddedStoreOptions['onFenced'],
  ) {
    this.#meta = meta;
    this.#onFenced = onFenced;
    this.#previous = meta.get(holderKey);
    this.holder = { epoch: Math.max(epochOf(this.#previous) + 1, generation), ...holder };
    this.#own = Buffer.from(JSON.stringify(this.holder));
  }

  /**
   * Inside a transaction, before it writes anything.
   * @throws StoreError ERR_STORE_FENCED
   */
  assert(): void {
    const found = this.#meta.get(holderKey);
    if (found?.equals(this.#own)) return;
    // protection: replaced-holder
    if (!isSame(found, this.#previous)) {
      const message = `process ${this.holder.pid} has lost the store to epoch ${epochOf(found)}`;
      throw this.#fenced(new StoreError('ERR_STORE_FENCED', message));
    }
    this.#meta.put(holderKey, this.#own);
  }

  /** After the transaction, which is given up: whoever is told may use the store. */
  #fenced(error: StoreError): StoreError {
    const tell = this.#onFenced;
    this.#onFenced = undefined;
    if (tell !== undefined) setImmediate(tell, error);
    return error;
  }
}

function epochOf(record: Buffer | undefined): number {
  return record === undefined ? 0 : JSON.parse(record.toString()).epoch;
}

function isSame(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

/** A store of an older layout was brought to the present one. */
export interface StoreUpgrade {
  readonly from: number;
  readonly to: number;
  /** The store as it was before, as a backup; it is kept until somebody removes it. */
  readonly old: BackupReceipt;
}

/**
 * The steps between layouts, each from the layout that is its index to the next; all of them are
 * one transaction.
 */
const steps: readonly ((tables: Tables) => void)[] = [
  // Layout 0 has the rows of layout 1 and does not say so.
  () => {},
];

/**
 * Brings the tables to the present layout. The old store is kept as a backup beside the directory
 * (`<directory>-layout-<n>.mdb`) before the first change.
 * @returns what was done; `undefined` if there was nothing to do, or the store is a new one
 * @throws StoreError ERR_STORE_VERSION for a layout of a later version, ERR_STORE_FULL
 */
async function upgradeTables(
  tables: LmdbTables,
  directory: string,
  now: Date,
): Promise<StoreUpgrade | undefined> {
  const layout = readLayout(tables, directory);
  if (layout === layoutVersion) return undefined;
  const old = isEmpty(tables)
    ? undefined
    : await backUpBeforeUpgrade(tables, directory, layout, now);
  await tables.transaction(() => {
    for (const step of steps.slice(layout)) step(tables);
    tables.meta.put(layoutKey, packNumber(layoutVersion));
  });
  return old === undefined ? undefined : { from: layout, to: layoutVersion, old };
}

/** An upgrade that was cut short left a copy of the same store: it is made again. */
async function backUpBeforeUpgrade(
  tables: LmdbTables,
  directory: string,
  layout: number,
  now: Date,
): Promise<BackupReceipt> {
  const file = `${directory}-layout-${layout}.mdb`;
  await rm(file, { force: true });
  return writeBackup((partial) => tables.copyTo(partial), file, now);
}

function isEmpty(tables: Tables): boolean {
  return [tables.entries, tables.expiries, tables.records, tables.meta].every(hasNoRows);
}

function hasNoRows(table: Table): boolean {
  const everything = { from: Buffer.alloc(0), to: Buffer.of(0xff) };
  return table.range({ ...everything, limit: 1 }).length === 0;
}

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
    const { onFull = () => {}, onFenced } = options;
    const store = new LmdbStore({ tables, lock, now, onFull, onFenced });
    await closeOnFailure(store, () => store.recordHolder());
    return store;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

interface LmdbStoreDeps {
  readonly tables: LmdbTables;
  readonly lock: DirectoryLock;
  readonly now: () => number;
  readonly onFull: (isFull: boolean) => void;
  readonly onFenced: EmbeddedStoreOptions['onFenced'];
}

class LmdbStore extends TableStore implements EmbeddedStore {
  readonly #tables: LmdbTables;
  readonly #space: DiskSpaceGuard;
  readonly #now: () => number;
  readonly #holder: HolderRecord;

  constructor({ tables, lock, now, onFull, onFenced }: LmdbStoreDeps) {
    const space = new DiskSpaceGuard({ probe: () => probeSpace(tables), onChange: onFull });
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

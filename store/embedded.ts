import path from 'node:path';
import { preparePrivateDirectory, preparePrivateFile } from './directory.ts';
import { lockDirectory } from './directory-lock.ts';
import { StoreError } from './errors.ts';
import { checkSignature, readLayout, writeLayout } from './layout.ts';
import { openLmdbTables } from './lmdb-tables.ts';
import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';
import type { Tables } from './tables.ts';

/** How the embedded store is opened. */
export interface EmbeddedStoreOptions {
  /**
   * Where it lives. Made if it is missing; private to its owner (0700, files 0600) afterwards.
   * A directory that others can write to, or whose parents they can, is refused.
   */
  readonly directory: string;
  /** The clock that entries expire by, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/**
 * Opens a store in a directory of the local disk, in LMDB. One process has it open at a time.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_PERMISSIONS, ERR_STORE_CORRUPT,
 * ERR_STORE_VERSION, ERR_STORE_UNAVAILABLE
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<Store> {
  const directory = await prepare(options.directory);
  const unlock = await lockDirectory(directory);
  try {
    const tables = await openTables(directory);
    const close = async (): Promise<void> => {
      await tables.close();
      await unlock();
    };
    return new TableStore({ ...tables, close }, options.now ?? Date.now);
  } catch (error) {
    await unlock();
    throw error;
  }
}

async function prepare(directory: string): Promise<string> {
  try {
    return await preparePrivateDirectory(directory);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError('ERR_STORE_UNAVAILABLE', `${directory} cannot be used`, { cause });
  }
}

async function openTables(directory: string): Promise<Tables> {
  const data = path.join(directory, 'data.mdb');
  await preparePrivateFile(data);
  await preparePrivateFile(path.join(directory, 'lock.mdb'));
  await checkSignature(data);
  const tables = openLmdbTables(directory);
  try {
    if (readLayout(tables, directory) === undefined) await writeLayout(tables);
  } catch (error) {
    await tables.close();
    throw error;
  }
  return tables;
}

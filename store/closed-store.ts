/** Reads or copies a store on disk without opening it for writing. */

import { mkdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '#runtime';
import { isDirectoryLocked } from './directory.ts';
import { StoreError } from './errors.ts';
import { checkSignature, openLmdbTables } from './lmdb-tables.ts';
import { layoutVersion, readLayout } from './row-layout.ts';
import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';

/**
 * Reads an embedded store. It neither creates a store nor changes file modes. Expired entries may
 * still be present.
 * @param read - function that reads the store. The store is closed when the promise of the function
 * settles
 * @returns the result of `read`. `undefined` if there is no store, or if the store has an older
 * layout, which the next start of a master upgrades
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_CORRUPT, ERR_STORE_VERSION, ERR_STORE_UNAVAILABLE
 */
export async function readStore<T>(
  directory: string,
  read: (store: Pick<Store, 'get' | 'list'>) => Promise<T>,
): Promise<T | undefined> {
  const data = path.join(directory, 'data.mdb');
  if (!(await hasContent(data))) return undefined;
  if (await isDirectoryLocked(await realpath(directory))) {
    throw new StoreError('ERR_STORE_LOCKED', `${directory} is in use by another process`);
  }
  await checkSignature(data);
  const tables = openLmdbTables(directory, true);
  // At time 0 no entry has expired, so the store does not remove any entry.
  const store = new TableStore(tables, () => 0);
  try {
    return readLayout(tables, directory) < layoutVersion ? undefined : await read(store);
  } finally {
    await store.close();
  }
}

/**
 * Copies a consistent snapshot of a store into a new directory, even while another process has the
 * store open.
 * @throws StoreError ERR_STORE_UNAVAILABLE if there is no store; ERR_STORE_CORRUPT,
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
    if (isMissing(cause)) return false;
    throw new StoreError('ERR_STORE_UNAVAILABLE', `cannot read ${file}`, { cause });
  }
}

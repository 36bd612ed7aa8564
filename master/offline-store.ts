/** The store of a master that is not running: backup, restore, inspection. */

import { type MasterConfig, storeDirectory } from '#config';
import {
  type BackupReceipt,
  type EmbeddedStore,
  inspectStore,
  type Key,
  openEmbeddedStore,
  type RestoreReceipt,
  restoreStore,
  StoreError,
  type StoreInspection,
} from '#store';
import { secretsPrefix } from './auth/index.ts';

/** Opens a store that no process has open, until the work is done. @throws StoreError ERR_STORE_LOCKED */
export async function inStore<T>(
  directory: string,
  work: (store: EmbeddedStore) => Promise<T>,
  now: () => number = Date.now,
): Promise<T> {
  const store = await openEmbeddedStore({ directory, now });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Deletes every key below these prefixes. */
export async function dropTables(
  store: Pick<EmbeddedStore, 'write'>,
  prefixes: readonly Key[],
): Promise<void> {
  await store.write(prefixes.map((prefix) => ({ op: 'delete-prefix', prefix })));
}

/**
 * Makes a backup of the store of a master that is not running.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export function backupOfflineStore(
  { stateDir }: MasterConfig,
  target: string,
): Promise<BackupReceipt> {
  return inStore(storeDirectory(stateDir), (store) => store.backup(target));
}

/** Rows of the runs of reactions that wait or are under way. */
export const openRunsPrefix: Key = ['reactions', 'open'];

/**
 * What a store is restored without: the publish key and session keys, as minions hold higher
 * serials by now and what was revoked since must not serve again; runs of reactions that waited
 * then, as they have been done since.
 */
export const notRestored: readonly Key[] = [secretsPrefix, openRunsPrefix];

/**
 * Puts a backup in the place of the store of a master that is not running, without what is
 * {@link notRestored}: every minion signs in once more.
 * @throws StoreError ERR_STORE_LOCKED while a master runs; ERR_STORE_CORRUPT, ERR_STORE_VERSION,
 * ERR_STORE_BACKUP, ERR_STORE_FULL: the store is as it was
 */
export async function restoreMasterStore(
  { stateDir, cluster }: MasterConfig,
  file: string,
): Promise<RestoreReceipt> {
  if (cluster !== null) {
    const message =
      'the store of a member is that of its cluster: move state_dir away, and join it';
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  return restoreStore({
    file,
    directory: storeDirectory(stateDir),
    adapt: (store) => dropTables(store, notRestored),
  });
}

/**
 * Reads the whole store, also while the master runs; changes nothing.
 * @throws StoreError ERR_STORE_CORRUPT, ERR_STORE_UNAVAILABLE
 */
export function inspectMasterStore({ stateDir }: MasterConfig): Promise<StoreInspection> {
  return inspectStore(storeDirectory(stateDir));
}

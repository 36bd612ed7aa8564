/** The store of a master that is not running: backup, restore, inspection. */

import {
  type BackupReceipt,
  inspectStore,
  type Key,
  openEmbeddedStore,
  type RestoreReceipt,
  restoreStore,
  StoreError,
  type StoreInspection,
} from '../store/index.ts';
import { secretsPrefix } from './auth/index.ts';
import { type MasterConfig, storeDirectory } from './config/index.ts';
import { openRunsPrefix } from './reactor/index.ts';

/**
 * Makes a backup of the store of a master that is not running.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export async function backupOfflineStore(
  { stateDir }: MasterConfig,
  target: string,
): Promise<BackupReceipt> {
  const store = await openEmbeddedStore({ directory: storeDirectory(stateDir) });
  try {
    return await store.backup(target);
  } finally {
    await store.close();
  }
}

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
  // protection: restored-members
  if (cluster !== null) {
    const message =
      'the store of a member is that of its cluster: move state_dir away, and join it';
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  return restoreStore({
    file,
    directory: storeDirectory(stateDir),
    adapt: async (store) => {
      await store.write(notRestored.map((prefix) => ({ op: 'delete-prefix', prefix })));
    },
  });
}

/**
 * Reads the whole store, also while the master runs; changes nothing.
 * @throws StoreError ERR_STORE_CORRUPT, ERR_STORE_UNAVAILABLE
 */
export function inspectMasterStore({ stateDir }: MasterConfig): Promise<StoreInspection> {
  return inspectStore(storeDirectory(stateDir));
}

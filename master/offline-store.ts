/** The store of a master that is not running: backup, restore, inspection. */

import {
  type BackupReceipt,
  inspectStore,
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
 * Puts a backup in the place of the store of a master that is not running. The publish key and
 * the session keys in it are dropped: minions hold higher serials of that key by now and would
 * take no publication, and what was revoked since must not serve again. So every minion signs in
 * once more. Runs of reactions that waited then are dropped as well: they have been done since.
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
      await store.write([
        { op: 'delete-prefix', prefix: secretsPrefix },
        { op: 'delete-prefix', prefix: openRunsPrefix },
      ]);
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

/**
 * Operations of the command line on a master's store: backup and restore while the master is
 * stopped, and inspection at any time.
 */

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
import { tokensPrefix } from './users/index.ts';

/**
 * Opens the embedded store in a directory, calls `work` with it, and closes it. No other process
 * may use the store.
 * @throws StoreError ERR_STORE_LOCKED
 */
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

/** Deletes all rows whose keys begin with one of these prefixes. */
export async function dropTables(
  store: Pick<EmbeddedStore, 'write'>,
  prefixes: readonly Key[],
): Promise<void> {
  await store.write(prefixes.map((prefix) => ({ op: 'delete-prefix', prefix })));
}

/**
 * Creates a backup of the store of a stopped master.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export function backupOfflineStore(
  { stateDir }: MasterConfig,
  target: string,
): Promise<BackupReceipt> {
  return inStore(storeDirectory(stateDir), (store) => store.backup(target));
}

/** Prefix of the rows with unfinished reaction runs. */
export const openRunsPrefix: Key = ['reactions', 'open'];

/**
 * Prefixes of the rows that are not restored from a backup. The first is for the publish key and
 * session keys. Minions have received publications with higher serials since the backup, and
 * revoked keys must not work again. The second is for unfinished reaction runs, which have ended
 * since the backup. The third is for tokens of users, which may have been revoked since the backup.
 */
export const notRestored: readonly Key[] = [secretsPrefix, openRunsPrefix, tokensPrefix];

/**
 * Restores the store of a stopped master from a backup, without the rows in {@link notRestored}.
 * Every minion then signs in again. If the call fails, the store is unchanged.
 * @throws StoreError ERR_STORE_LOCKED while a master runs; ERR_STORE_CORRUPT, ERR_STORE_VERSION,
 * ERR_STORE_BACKUP, ERR_STORE_FULL
 */
export async function restoreMasterStore(
  { stateDir, cluster }: MasterConfig,
  file: string,
): Promise<RestoreReceipt> {
  if (cluster !== null) {
    const message =
      'a cluster member cannot be restored: its store belongs to the cluster; move state_dir away and join again';
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  return restoreStore({
    file,
    directory: storeDirectory(stateDir),
    adapt: (store) => dropTables(store, notRestored),
  });
}

/**
 * Reads the complete store without changing it, even while the master runs.
 * @throws StoreError ERR_STORE_CORRUPT, ERR_STORE_UNAVAILABLE
 */
export function inspectMasterStore({ stateDir }: MasterConfig): Promise<StoreInspection> {
  return inspectStore(storeDirectory(stateDir));
}

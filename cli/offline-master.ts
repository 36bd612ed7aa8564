/** The keys, store and cluster of a master on this host, whether or not the master is running. */
import path from 'node:path';
import { connectMaster, RemoteError } from '#client';
import {
  type ClusterReceipt,
  copyMaster,
  exportStore,
  importStore,
  initCluster,
  joinCluster,
  leaveCluster,
  type RefoundReceipt,
  type RestorePoint,
  refoundCluster,
  type TransferReceipt,
} from '#cluster';
import type { MasterConfig } from '#config';
import {
  backupOfflineStore,
  inspectMasterStore,
  type OfflineKeys,
  openOfflineKeys,
  restoreMasterStore,
} from '#master';
import type { BackupReceipt, RestoreReceipt, StoreInspection } from '#store';
import { errorCodeOf } from './errors.ts';

/**
 * Returns the keys of the running master, or those in its PKI directory if none is running.
 * @throws KeyError ERR_PKI_DIR, RemoteError if the socket exists but access is denied
 */
export async function openKeys(config: MasterConfig): Promise<OfflineKeys> {
  const api = connectMaster({ socketPath: config.socket });
  try {
    await api.status();
  } catch (error) {
    if (!isMasterNotRunning(error)) throw error;
    return openOfflineKeys(config);
  }
  return { keys: api.keys, close: async () => {} };
}

/** Whether a call failed because no master listens on the socket. */
export function isMasterNotRunning(error: unknown): boolean {
  const code = error instanceof RemoteError ? errorCodeOf(error.cause) : undefined;
  return code === 'ENOENT' || code === 'ECONNREFUSED';
}

/** Operations for `saltbridge store`. */
export interface StoreAccess {
  /** Directory of the store. */
  readonly directory: string;
  /** Writes a backup through the running master, or from the files if none is running. */
  backup(target: string): Promise<BackupReceipt>;
  /** Replaces the store with a backup. Only possible if no master is running. */
  restore(file: string): Promise<RestoreReceipt>;
  /** Reads the whole store. */
  inspect(): Promise<StoreInspection>;
  /** Writes the store, keys and files into a new directory. */
  export(target: string): Promise<TransferReceipt>;
  /** Imports an export. Only possible if no store exists yet. */
  import(source: string): Promise<TransferReceipt>;
  /** Imports from the directories of another configuration, which no running master may use. */
  copy(configDirectory: string): Promise<TransferReceipt>;
}

/** Cluster operations of a master that is not running. */
export interface OfflineCluster {
  init(): Promise<ClusterReceipt>;
  join(ticket: string): Promise<ClusterReceipt>;
  leave(): Promise<ClusterReceipt>;
  refound(point?: RestorePoint): Promise<RefoundReceipt>;
}

export function openCluster(config: MasterConfig): OfflineCluster {
  return {
    init: () => initCluster(config),
    join: (ticket) => joinCluster(config, ticket),
    leave: () => leaveCluster(config),
    refound: (point) => refoundCluster(config, {}, point),
  };
}

export function openStore(
  config: MasterConfig,
  loadConfig: (directory: string) => Promise<MasterConfig>,
): StoreAccess {
  return {
    directory: path.join(config.stateDir, 'store'),
    backup: async (target) => {
      const wholePath = path.resolve(target);
      try {
        return await connectMaster({ socketPath: config.socket }).store.backup(wholePath);
      } catch (error) {
        if (!isMasterNotRunning(error)) throw error;
        return backupOfflineStore(config, wholePath);
      }
    },
    restore: (file) => restoreMasterStore(config, file),
    inspect: () => inspectMasterStore(config),
    export: (target) => exportStore(config, target),
    import: (source) => importStore(config, source),
    copy: async (directory) => copyMaster(config, await loadConfig(directory)),
  };
}

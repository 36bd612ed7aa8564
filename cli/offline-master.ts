/** The keys, store and cluster of a master on this host, whether the master runs or not. */
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
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
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

/** What `saltbridge store` asks for. */
export interface StoreAccess {
  /** Where it lies. */
  readonly directory: string;
  /** By the running master, or, where none runs, from the files. */
  backup(target: string): Promise<BackupReceipt>;
  /** Only where no master runs. */
  restore(file: string): Promise<RestoreReceipt>;
  /** Reads it from one end to the other. */
  inspect(): Promise<StoreInspection>;
  /** With keys and files, into a new directory. */
  export(target: string): Promise<TransferReceipt>;
  /** Only where there is none yet. */
  import(source: string): Promise<TransferReceipt>;
  /** What lies where another configuration directory says, which no running master uses. */
  copy(configDirectory: string): Promise<TransferReceipt>;
}

/** What a master that does not run does with its cluster. */
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

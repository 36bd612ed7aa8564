/**
 * Access to the keys, the store and the cluster of a master on this host, which need not be
 * running.
 */
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
import { type JoinReceipt, joinSite } from '#edge';
import {
  backupOfflineStore,
  inspectMasterStore,
  type OfflineKeys,
  openOfflineKeys,
  restoreMasterStore,
} from '#master';
import type { BackupReceipt, RestoreReceipt, StoreInspection } from '#store';
import { CommandError, errorCodeOf } from './errors.ts';

/**
 * Returns the keys of the running master. If no master is running, returns the keys in the PKI
 * directory.
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

/** Whether a call failed because no master is listening on the socket. */
export function isMasterNotRunning(error: unknown): boolean {
  const code = error instanceof RemoteError ? errorCodeOf(error.cause) : undefined;
  return code === 'ENOENT' || code === 'ECONNREFUSED';
}

/** Operations of `saltbridge store`. */
export interface StoreAccess {
  /** Directory of the store. */
  readonly directory: string;
  /**
   * Writes a backup. If the master is running, the master writes the backup. Otherwise this process
   * writes it from the files.
   */
  backup(target: string): Promise<BackupReceipt>;
  /** Replaces the store with a backup. The master must not be running. */
  restore(file: string): Promise<RestoreReceipt>;
  /** Reads the whole store and checks it. */
  inspect(): Promise<StoreInspection>;
  /** Writes the store, the keys and the other files of the master to a new directory. */
  export(target: string): Promise<TransferReceipt>;
  /** Imports an export. The store must not exist yet. */
  import(source: string): Promise<TransferReceipt>;
  /**
   * Copies the files of another configuration's master to the paths of this configuration. The
   * other master must be stopped.
   */
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

/** Operations on the identity of a master as a site. */
export interface OfflineSite {
  /** Makes this master a site of the centre that issued the ticket. */
  join(ticket: string): Promise<JoinReceipt>;
}

export function openSite({ site, stateDir, confFile }: MasterConfig): OfflineSite {
  if (site === null) {
    throw new CommandError('ERR_ARGS', `${confFile} has no saltbridge: site: name and centre`);
  }
  return { join: (ticket) => joinSite(ticket, { stateDir, site }) };
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

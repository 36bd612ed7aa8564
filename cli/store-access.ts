/** The store of the master of a configuration directory, whether it runs or not. */
import path from 'node:path';
import { connectMaster } from '../client/index.ts';
import { backupOfflineStore, inspectMasterStore, restoreMasterStore } from '../master/index.ts';
import type { BackupReceipt, RestoreReceipt, StoreInspection } from '../store/index.ts';
import { isNobodyThere, loadOwnConfig } from './connect.ts';

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
}

/** @throws ConfigError; StoreError and RemoteError from each call */
export async function openLocalStore(configDirectory: string): Promise<StoreAccess> {
  const config = await loadOwnConfig(configDirectory);
  return {
    directory: path.join(config.stateDir, 'store'),
    backup: async (target) => {
      const wholePath = path.resolve(target);
      try {
        return await connectMaster({ socketPath: config.socket }).store.backup(wholePath);
      } catch (error) {
        if (!isNobodyThere(error)) throw error;
        return backupOfflineStore(config, wholePath);
      }
    },
    restore: (file) => restoreMasterStore(config, file),
    inspect: () => inspectMasterStore(config),
  };
}

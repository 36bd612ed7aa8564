import path from 'node:path';
import {
  connectExtension,
  connectMaster,
  type ExtensionClient,
  RemoteError,
} from '../client/index.ts';
import {
  backupOfflineStore,
  inspectMasterStore,
  loadMasterConfig,
  type MasterApi,
  type MasterConfig,
  type OfflineKeys,
  openOfflineKeys,
  restoreMasterStore,
} from '../master/index.ts';
import type { BackupReceipt, RestoreReceipt, StoreInspection } from '../store/index.ts';
import type { CommandDefaults } from './command-defaults.ts';
import { CommandError, errorCodeOf } from './errors.ts';

/**
 * The configuration of one master.
 * @throws ConfigError when it cannot be read; CommandError ERR_TENANTS when it is that of several
 */
async function loadSingleMasterConfig(configDirectory: string): Promise<MasterConfig> {
  const { config } = await loadMasterConfig(configDirectory);
  const directories = Object.values(config.tenants);
  if (directories.length === 0) return config;
  const choices = directories.map((it) => `-c ${path.resolve(configDirectory, it)}`).join(', ');
  throw new CommandError('ERR_TENANTS', `${config.confFile} has tenants; say which: ${choices}`);
}

/**
 * The running master that uses a configuration directory, over its local socket.
 * @throws what {@link loadSingleMasterConfig} throws; RemoteError from each call
 */
export async function openLocalApi(configDirectory: string): Promise<MasterApi> {
  const config = await loadSingleMasterConfig(configDirectory);
  return connectMaster({ socketPath: config.socket });
}

/** What a configuration says of commands. @throws what {@link loadSingleMasterConfig} throws */
export async function readCommandDefaults(configDirectory: string): Promise<CommandDefaults> {
  return loadSingleMasterConfig(configDirectory);
}

/**
 * An extension of the running master, such as `bridge`, over its local socket.
 * @throws what {@link loadSingleMasterConfig} throws; RemoteError from each call
 */
export async function openLocalExtension(
  configDirectory: string,
  extension: string,
): Promise<ExtensionClient> {
  const config = await loadSingleMasterConfig(configDirectory);
  return connectExtension({ socketPath: config.socket }, extension);
}

/**
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws ConfigError, KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
 */
export async function openLocalKeys(configDirectory: string): Promise<OfflineKeys> {
  const config = await loadSingleMasterConfig(configDirectory);
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

// The store of a master, whether the master runs or not.

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
  const config = await loadSingleMasterConfig(configDirectory);
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
  };
}

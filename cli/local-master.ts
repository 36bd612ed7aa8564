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

/** How commands reach the master of a configuration directory. */
export interface LocalMaster {
  /** The running master that uses this configuration directory. */
  readonly openApi: (configDirectory: string) => Promise<MasterApi>;
  /** An extension of that master, such as `bridge`. */
  readonly openExtension: (configDirectory: string, extension: string) => Promise<ExtensionClient>;
  /** The keys of that master, or, where none runs, those in its PKI directory. */
  readonly openKeys: (configDirectory: string) => Promise<OfflineKeys>;
  /** The store of that master, whether it runs or not. */
  readonly openStore: (configDirectory: string) => Promise<StoreAccess>;
  /** What that configuration says of commands named as Salt's. */
  readonly commandDefaults: (configDirectory: string) => Promise<CommandDefaults>;
}

/**
 * The running master over its local socket, or, where none runs, its files. A configuration is read
 * once.
 */
export function createLocalMaster(): LocalMaster {
  const configs = new Map<string, Promise<MasterConfig>>();
  const configOf = (directory: string): Promise<MasterConfig> => {
    const config = configs.get(directory) ?? loadSingleMasterConfig(directory);
    configs.set(directory, config);
    return config;
  };
  return {
    openApi: async (directory) => {
      const { socket } = await configOf(directory);
      return connectMaster({ socketPath: socket });
    },
    openExtension: async (directory, extension) => {
      const { socket } = await configOf(directory);
      return connectExtension({ socketPath: socket }, extension);
    },
    openKeys: async (directory) => openKeys(await configOf(directory)),
    openStore: async (directory) => openStore(await configOf(directory)),
    commandDefaults: configOf,
  };
}

/**
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
 */
async function openKeys(config: MasterConfig): Promise<OfflineKeys> {
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
interface StoreAccess {
  /** Where it lies. */
  readonly directory: string;
  /** By the running master, or, where none runs, from the files. */
  backup(target: string): Promise<BackupReceipt>;
  /** Only where no master runs. */
  restore(file: string): Promise<RestoreReceipt>;
  /** Reads it from one end to the other. */
  inspect(): Promise<StoreInspection>;
}

function openStore(config: MasterConfig): StoreAccess {
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

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { connectExtension, connectMaster, type ExtensionClient, type RemoteMasters } from '#client';
import { loadMasterConfig, type MasterConfig, resolveMasterConfig } from '#config';
import type { MasterApi, OfflineKeys } from '#master';
import type { CommandDefaults } from './command-defaults.ts';
import { CommandError, errorCodeOf } from './errors.ts';
import type { OfflineCluster, OfflineSite, StoreAccess } from './offline-master.ts';

/**
 * Loads a configuration that describes only one master.
 * @throws ConfigError if it cannot be read; CommandError ERR_TENANTS if it has several tenants
 */
async function loadSingleMasterConfig(configDirectory: string): Promise<MasterConfig> {
  const { config } = await loadMasterConfig(configDirectory);
  const directories = Object.values(config.tenants);
  if (directories.length === 0) return config;
  const choices = directories.map((it) => `-c ${path.resolve(configDirectory, it)}`).join(', ');
  throw new CommandError('ERR_TENANTS', `${config.confFile} has tenants; choose one: ${choices}`);
}

/**
 * Returns the remote masters that the environment variables name.
 * @throws CommandError ERR_ARGS if the file of certificates cannot be read
 */
function remoteMastersOf(environment: NodeJS.ProcessEnv): RemoteMasters | undefined {
  const { SALTBRIDGE_URL = '', SALTBRIDGE_TOKEN: token, SALTBRIDGE_CA: file } = environment;
  const urls = SALTBRIDGE_URL.split(/[\s,]+/).filter((url) => url !== '');
  if (urls.length === 0) return undefined;
  const access = token === undefined ? {} : { token };
  return { urls, ...access, ...(file === undefined ? {} : { ca: readCertificates(file) }) };
}

/**
 * Connects to a remote master and converts errors.
 * @throws CommandError ERR_ARGS for an invalid address, or an address over which a token would be
 * sent unencrypted
 */
function connectElsewhere<T>(connect: () => T): T {
  try {
    return connect();
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new CommandError('ERR_ARGS', `SALTBRIDGE_URL: ${cause.message}`);
  }
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const reason = errorCodeOf(cause) ?? String(cause);
    throw new CommandError('ERR_ARGS', `SALTBRIDGE_CA: ${file} cannot be read (${reason})`);
  }
}

/**
 * Loads the code for access to a master's files on demand, because it is large and few commands
 * need it.
 */
function loadOfflineMaster(): Promise<typeof import('./offline-master.ts')> {
  return import('./offline-master.ts');
}

/** Access to the master that a configuration directory describes. */
export interface LocalMaster {
  /** Connects to the running master of this configuration directory. */
  readonly openApi: (configDirectory: string) => Promise<MasterApi>;
  /** Returns a client for an extension of the running master, such as `bridge`. */
  readonly openExtension: (configDirectory: string, extension: string) => Promise<ExtensionClient>;
  /**
   * Returns the keys of the master. If the master is not running, returns the keys in its PKI
   * directory.
   */
  readonly openKeys: (configDirectory: string) => Promise<OfflineKeys>;
  /** Returns the store of the master. The master need not be running. */
  readonly openStore: (configDirectory: string) => Promise<StoreAccess>;
  /** Returns the cluster operations for the master. The master must not be running. */
  readonly openCluster: (configDirectory: string) => Promise<OfflineCluster>;
  /** Returns the operations on the site identity of the master. The master need not be running. */
  readonly openSite: (configDirectory: string) => Promise<OfflineSite>;
  /**
   * Returns defaults from this configuration for the commands `salt`, `salt-key`, `salt-run` and
   * `salt-cp`.
   */
  readonly commandDefaults: (configDirectory: string) => Promise<CommandDefaults>;
}

/**
 * Creates the access of commands to a master: through the local socket if the master is running,
 * otherwise through its files. If the environment names remote masters (`SALTBRIDGE_URL`), commands
 * call them over HTTPS. Operations on the files of a stopped master always use this host. Each
 * configuration is read only once.
 */
export function createLocalMaster(environment: NodeJS.ProcessEnv = process.env): LocalMaster {
  const configs = new Map<string, Promise<MasterConfig>>();
  const configOf = (directory: string): Promise<MasterConfig> => {
    const config = configs.get(directory) ?? loadSingleMasterConfig(directory);
    configs.set(directory, config);
    return config;
  };
  return {
    openApi: async (directory) => {
      const remote = remoteMastersOf(environment);
      if (remote !== undefined) return connectElsewhere(() => connectMaster(remote));
      const { socket } = await configOf(directory);
      return connectMaster({ socketPath: socket });
    },
    openExtension: async (directory, extension) => {
      const remote = remoteMastersOf(environment);
      if (remote !== undefined) {
        return connectElsewhere(() => connectExtension(remote, extension));
      }
      const { socket } = await configOf(directory);
      return connectExtension({ socketPath: socket }, extension);
    },
    openKeys: async (directory) => {
      const remote = remoteMastersOf(environment);
      if (remote === undefined) {
        const { openKeys } = await loadOfflineMaster();
        return openKeys(await configOf(directory));
      }
      const { keys } = connectElsewhere(() => connectMaster(remote));
      return { keys, close: async () => {} };
    },
    openStore: async (directory) => {
      const { openStore } = await loadOfflineMaster();
      return openStore(await configOf(directory), loadSingleMasterConfig);
    },
    openCluster: async (directory) => {
      const { openCluster } = await loadOfflineMaster();
      return openCluster(await configOf(directory));
    },
    openSite: async (directory) => {
      const { openSite } = await loadOfflineMaster();
      return openSite(await configOf(directory));
    },
    commandDefaults: async (directory) => {
      const isElsewhere = remoteMastersOf(environment) !== undefined && !existsSync(directory);
      return isElsewhere ? resolveMasterConfig({}) : configOf(directory);
    },
  };
}

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { connectExtension, connectMaster, type ExtensionClient, type RemoteMasters } from '#client';
import { loadMasterConfig, type MasterConfig, resolveMasterConfig } from '#config';
import type { MasterApi, OfflineKeys } from '#master';
import type { CommandDefaults } from './command-defaults.ts';
import { CommandError, errorCodeOf } from './errors.ts';
import type { OfflineCluster, StoreAccess } from './offline-master.ts';

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
 * The masters that the environment names, for commands that are not run on a master's host.
 * @throws CommandError ERR_ARGS where the file of certificates cannot be read
 */
function remoteMastersOf(environment: NodeJS.ProcessEnv): RemoteMasters | undefined {
  const { SALTBRIDGE_URL = '', SALTBRIDGE_TOKEN: token, SALTBRIDGE_CA: file } = environment;
  const urls = SALTBRIDGE_URL.split(/[\s,]+/).filter((url) => url !== '');
  if (urls.length === 0) return undefined;
  const access = token === undefined ? {} : { token };
  return { urls, ...access, ...(file === undefined ? {} : { ca: readCertificates(file) }) };
}

/** @throws CommandError ERR_ARGS for an address that is none, or over which a token would go in the clear */
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

/** Few commands need the files of a master, and most of the code serves those. */
function loadOfflineMaster(): Promise<typeof import('./offline-master.ts')> {
  return import('./offline-master.ts');
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
  /** The cluster of that configuration directory, for a master that does not run. */
  readonly openCluster: (configDirectory: string) => Promise<OfflineCluster>;
  /** What that configuration says of commands named as Salt's. */
  readonly commandDefaults: (configDirectory: string) => Promise<CommandDefaults>;
}

/**
 * The running master over its local socket, or, where none runs, its files. A configuration is read
 * once. Where the environment names masters elsewhere (`SALTBRIDGE_URL`), those are asked over HTTPS;
 * stores and clusters that do not run are those of this host all the same.
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
    commandDefaults: async (directory) => {
      const isElsewhere = remoteMastersOf(environment) !== undefined && !existsSync(directory);
      return isElsewhere ? resolveMasterConfig({}) : configOf(directory);
    },
  };
}

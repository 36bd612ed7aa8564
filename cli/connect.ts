import path from 'node:path';
import {
  connectExtension,
  connectMaster,
  type ExtensionClient,
  RemoteError,
} from '../client/index.ts';
import {
  loadMasterConfig,
  type MasterApi,
  type MasterConfig,
  type OfflineKeys,
  openOfflineKeys,
} from '../master/index.ts';
import { codeOf } from './error-code.ts';
import { CommandError } from './errors.ts';

/**
 * The configuration of one master.
 * @throws ConfigError when it cannot be read; CommandError ERR_TENANTS when it is that of several
 */
export async function loadOwnConfig(configDirectory: string): Promise<MasterConfig> {
  const { config } = await loadMasterConfig(configDirectory);
  const directories = Object.values(config.tenants);
  if (directories.length === 0) return config;
  const choices = directories.map((it) => `-c ${path.resolve(configDirectory, it)}`).join(', ');
  throw new CommandError('ERR_TENANTS', `${config.confFile} has tenants; say which: ${choices}`);
}

/**
 * The running master that uses a configuration directory, over its local socket.
 * @throws what {@link loadOwnConfig} throws; RemoteError from each call
 */
export async function openLocalApi(configDirectory: string): Promise<MasterApi> {
  const config = await loadOwnConfig(configDirectory);
  return connectMaster({ socketPath: config.socket });
}

/**
 * An extension of the running master, such as `bridge`, over its local socket.
 * @throws what {@link loadOwnConfig} throws; RemoteError from each call
 */
export async function openLocalExtension(
  configDirectory: string,
  extension: string,
): Promise<ExtensionClient> {
  const config = await loadOwnConfig(configDirectory);
  return connectExtension({ socketPath: config.socket }, extension);
}

/**
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws ConfigError, KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
 */
export async function openLocalKeys(configDirectory: string): Promise<OfflineKeys> {
  const config = await loadOwnConfig(configDirectory);
  const api = connectMaster({ socketPath: config.socket });
  try {
    await api.status();
  } catch (error) {
    if (!isNobodyThere(error)) throw error;
    return openOfflineKeys(config);
  }
  return { keys: api.keys, close: async () => {} };
}

/** Whether a call failed because no master listens on the socket. */
export function isNobodyThere(error: unknown): boolean {
  const code = error instanceof RemoteError ? codeOf(error.cause) : undefined;
  return code === 'ENOENT' || code === 'ECONNREFUSED';
}

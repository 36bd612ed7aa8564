import { connectMaster, RemoteError } from '../client/index.ts';
import {
  loadMasterConfig,
  type MasterApi,
  type OfflineKeys,
  openOfflineKeys,
} from '../master/index.ts';

/**
 * The running master that uses a configuration directory, over its local socket.
 * @throws ConfigError when the configuration cannot be read; RemoteError from each call
 */
export async function openLocalApi(configDirectory: string): Promise<MasterApi> {
  const { config } = await loadMasterConfig(configDirectory);
  return connectMaster({ socketPath: config.socket });
}

/**
 * The keys of the running master, or, where none runs, those in its PKI directory.
 * @throws ConfigError, KeyError ERR_PKI_DIR, RemoteError when the socket is there but not for us
 */
export async function openLocalKeys(configDirectory: string): Promise<OfflineKeys> {
  const { config } = await loadMasterConfig(configDirectory);
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
  if (!(error instanceof RemoteError) || !(error.cause instanceof Error)) return false;
  const { cause } = error;
  return 'code' in cause && (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED');
}

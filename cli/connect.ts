import { connectMaster } from '../client/index.ts';
import { loadMasterConfig, type MasterApi } from '../master/index.ts';

/**
 * The running master that uses a configuration directory, over its local socket.
 * @throws ConfigError when the configuration cannot be read; RemoteError from each call
 */
export async function openLocalApi(configDirectory: string): Promise<MasterApi> {
  const { config } = await loadMasterConfig(configDirectory);
  return connectMaster({ socketPath: config.socket });
}

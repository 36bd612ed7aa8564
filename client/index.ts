/** `saltbridge/client`: the master's interface from another process. */

export type { LocalMaster, RemoteMaster } from './connection.ts';
export { RemoteError } from './errors.ts';
export { connectExtension, type ExtensionClient } from './extension-client.ts';
export { connectMaster, type MasterClientOptions } from './master-client.ts';

/** Client of a running master. Other source folders import it from here. */

export { connectExtension, connectMaster } from './connect.ts';
export { type LocalMaster, localConnection, type RemoteMaster } from './connection.ts';
export { clientErrors, RemoteError } from './errors.ts';
export type { MasterSource, ReachedMaster } from './fail-over.ts';
export type { ExtensionClient } from './master-client.ts';
export type { RemoteMasters } from './master-list.ts';
export type { MethodCaller } from './rpc-client.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  sharedMasterErrors,
  shareMaster,
} from './shared/index.ts';

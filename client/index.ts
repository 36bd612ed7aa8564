/** The client of a running master, for other rooms. */

export { connectExtension, connectMaster } from './connect.ts';
export {
  type Connection,
  type LocalMaster,
  localConnection,
  type RemoteMaster,
} from './connection.ts';
export { clientErrors, RemoteError } from './errors.ts';
export { failOverExtension } from './extension-client.ts';
export { type MasterSource, maxWaitingCalls, type ReachedMaster } from './fail-over.ts';
export { connectLocalMaster, createMasterApi, type ExtensionClient } from './master-client.ts';
export type { RemoteMasters } from './master-list.ts';
export { callerOf, type MethodCaller, type NamedMethod, openMethodStream } from './rpc-client.ts';
export { failOverCaller } from './settled-jobs.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  sharedMasterErrors,
  shareMaster,
} from './shared/index.ts';

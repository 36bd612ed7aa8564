/** The client of a running master, for other rooms. */

export { connectExtension, connectMaster } from './connect.ts';
export { clientErrors, RemoteError } from './errors.ts';
export { failOverExtension } from './extension-client.ts';
export { type MasterSource, maxWaitingCalls, type ReachedMaster } from './fail-over.ts';
export {
  type Connection,
  callerOf,
  connectLocalMaster,
  createMasterApi,
  type ExtensionClient,
  type LocalMaster,
  localConnection,
  type MethodCaller,
  type NamedMethod,
  openMethodStream,
  type RemoteMaster,
} from './master-client.ts';
export type { RemoteMasters } from './master-list.ts';
export { failOverCaller } from './settled-jobs.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  sharedMasterErrors,
  shareMaster,
} from './shared/index.ts';

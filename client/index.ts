/** The client of a running master, for other rooms. */

export {
  type Connection,
  type LocalMaster,
  localConnection,
  type RemoteMaster,
} from './connection.ts';
export { clientErrors, RemoteError } from './errors.ts';
export { type ExtensionClient, failOverExtension } from './extension-client.ts';
export { type MasterSource, maxWaitingCalls, type ReachedMaster } from './fail-over.ts';
export { connectExtension, connectMaster, createMasterApi } from './master-client.ts';
export {
  callerOf,
  type MethodCaller,
  type NamedMethod,
  openMethodStream,
} from './method-caller.ts';
export { failOverCaller } from './settled-jobs.ts';

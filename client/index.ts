/** The client of a running master, for other rooms. */

export {
  callerOf,
  connectExtension,
  connectMaster,
  createMasterApi,
  type ExtensionClient,
  type MethodCaller,
  type NamedMethod,
} from './master-client.ts';
export {
  type Connection,
  callMethod,
  type LocalMaster,
  localConnection,
  openMethodStream,
  RemoteError,
  type RemoteMaster,
} from './rpc.ts';

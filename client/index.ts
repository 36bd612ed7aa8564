/** The client of a running master, for other rooms. */

export {
  type Connection,
  callerOf,
  callMethod,
  connectExtension,
  connectMaster,
  createMasterApi,
  type ExtensionClient,
  type LocalMaster,
  localConnection,
  type MethodCaller,
  type NamedMethod,
  openMethodStream,
  RemoteError,
  type RemoteMaster,
} from './master-client.ts';

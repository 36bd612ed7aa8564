/** `saltbridge/client`: the master's interface from another process. */

export {
  callerOf,
  connectExtension,
  connectMaster,
  createMasterApi,
  type ExtensionClient,
  type MasterClientOptions,
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

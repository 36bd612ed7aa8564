/** `saltbridge/client`: the master's interface from another process. */

export {
  connectExtension,
  connectMaster,
  type ExtensionClient,
  type MasterClientOptions,
} from './master-client.ts';
export { type LocalMaster, RemoteError, type RemoteMaster } from './rpc.ts';

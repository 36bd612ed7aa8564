/** The client of a running master, for other rooms. */

export {
  connectExtension,
  connectMaster,
  type ExtensionClient,
} from './master-client.ts';
export { type LocalMaster, RemoteError, type RemoteMaster } from './rpc.ts';

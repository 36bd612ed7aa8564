/**
 * `saltbridge/client`: client of a master that runs in another process. It uses the master's local
 * socket or its HTTP API.
 *
 * @packageDocumentation
 */

export {
  connectExtension,
  connectMaster,
  type ExtensionClient,
  type LocalMaster,
  RemoteError,
  type RemoteMaster,
} from '#client';

/**
 * `saltbridge/client`: interface of a master that runs in another process, over its local socket or
 * its HTTP API.
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

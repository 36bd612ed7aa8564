/** Connects to a master, or to the masters of a cluster. */

import { randomBytes } from 'node:crypto';
import type { MasterApi } from '#master';
import { createJidSource } from '#minion-protocol';
import {
  type Connection,
  type LocalMaster,
  localConnection,
  type RemoteMaster,
  remoteConnection,
} from './connection.ts';
import { failOverExtension } from './extension-client.ts';
import { createMasterApi, type ExtensionClient, extensionOver } from './master-client.ts';
import { MasterList, type RemoteMasters } from './master-list.ts';
import { callerOf } from './rpc-client.ts';
import { failOverCaller } from './settled-jobs.ts';

/** Address of a master, or addresses of the masters of a cluster. */
export type MasterClientOptions = LocalMaster | RemoteMaster | RemoteMasters;

/**
 * Returns the interface of a master that runs in another process. A master in this process has the
 * same interface. The client connects at the first call. Over HTTPS, calls have the rights of the
 * token's user. The policy decides about jobs, runners, wheel functions and events. All other
 * methods require full rights, and `store.backup` works only on the master's host.
 *
 * With `urls`, calls go to one master of a cluster. If that master becomes unreachable or stops,
 * calls go to the next one. Calls that were not sent are sent to the next master. Calls that only
 * read are repeated. Jobs are looked up on the next master by their ids. A job that exists there is
 * followed. Any other job is published there. Event streams continue after the last received event.
 * A call that may have been carried out and cannot be looked up fails with ERR_OUTCOME_UNKNOWN.
 * @throws TypeError for an address without TLS that is not on this host. Each call throws
 * RemoteError with the master's code, or with ERR_SOCKET if no master can be reached
 */
export function connectMaster(options: MasterClientOptions): MasterApi {
  if (!('urls' in options)) return createMasterApi(callerOf(connectionOf(options)));
  const suffix = `c${randomBytes(5).toString('hex')}`;
  return createMasterApi(
    failOverCaller(new MasterList(options), createJidSource(Date.now, suffix)),
  );
}

/**
 * Returns the client of an extension of a master. Over HTTPS, calls have the rights of the token's
 * user. Methods without a parameter `token`, for example `bridge.plan`, require full rights. Calls
 * over the local socket need no token. With `urls`, calls go to another master of the cluster if
 * the current one becomes unreachable or stops. A run of a command or plan then continues as the
 * same run. Any other call that may have been carried out fails with ERR_OUTCOME_UNKNOWN.
 * @param extension - name of the extension, for example `bridge`
 * @throws TypeError for an address without TLS that is not on this host
 */
export function connectExtension(options: MasterClientOptions, extension: string): ExtensionClient {
  if ('urls' in options) return failOverExtension(new MasterList(options), extension);
  return extensionOver(connectionOf(options), extension);
}

function connectionOf(options: LocalMaster | RemoteMaster): Connection {
  return 'socketPath' in options ? localConnection(options) : remoteConnection(options);
}

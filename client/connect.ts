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

/** Where the master is, or the masters of a cluster are. */
export type MasterClientOptions = LocalMaster | RemoteMaster | RemoteMasters;

/**
 * A running master elsewhere, with the same interface as one in the process. Connects when it is
 * called. Over HTTPS, calls are those of the token's user: jobs, runners, wheel functions and
 * events by what the policy permits, everything else for who may do everything; `store.backup` is
 * for the master's host alone.
 *
 * With `urls`, calls go to one master of a cluster, and on to the next when that cannot be reached or
 * ends: what was not sent goes to the next; what only reads is repeated; jobs are looked up by their
 * job ids there, and followed on or published; streams of events go on after the last event. What may have been done, and cannot be looked up, fails with ERR_OUTCOME_UNKNOWN.
 * @throws TypeError for an address without TLS that is not this host's. RemoteError from each
 * call: the master's code, or ERR_SOCKET when none can be reached
 */
export function connectMaster(options: MasterClientOptions): MasterApi {
  if (!('urls' in options)) return createMasterApi(callerOf(connectionOf(options)));
  const suffix = `c${randomBytes(5).toString('hex')}`;
  return createMasterApi(
    failOverCaller(new MasterList(options), createJidSource(Date.now, suffix)),
  );
}

/**
 * An extension of a master: by its local socket, or over HTTPS with the rights of the token's user,
 * where methods that take no token are for who may do everything. With `urls`, calls go on to the next
 * master as those of {@link connectMaster} do: runs of commands and plans are the same run there;
 * anything else that may have been done fails with ERR_OUTCOME_UNKNOWN.
 * @param extension - its name, for instance `bridge`
 * @throws TypeError as {@link connectMaster}
 */
export function connectExtension(options: MasterClientOptions, extension: string): ExtensionClient {
  if ('urls' in options) return failOverExtension(new MasterList(options), extension);
  return extensionOver(connectionOf(options), extension);
}

function connectionOf(options: LocalMaster | RemoteMaster): Connection {
  return 'socketPath' in options ? localConnection(options) : remoteConnection(options);
}

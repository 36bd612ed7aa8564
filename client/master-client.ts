/** The master's interface over whatever carries its calls. */

import { randomBytes } from 'node:crypto';
import {
  type CallableApi,
  isRpcMethod,
  type MasterApi,
  type RpcMethod,
  type RpcTable,
  type RpcTableOf,
  rpcTable,
  type UserApi,
} from '../master/index.ts';
import { createJidSource } from '../minion-protocol/index.ts';
import {
  createConnection,
  type LocalMaster,
  type RemoteMaster,
  type RemoteMasters,
} from './connection.ts';
import type { ExtensionClient } from './extension-client.ts';
import { MasterList } from './master-list.ts';
import { callerOf, callMethod, type MethodCaller, openMethodStream } from './method-caller.ts';
import { failOverCaller } from './settled-jobs.ts';

/** A stream that begins with the first read; ends when the reader stops or the signal fires. */
async function* streamOf<T>(open: () => Promise<AsyncIterable<T>>): AsyncGenerator<T, void, void> {
  yield* await open();
}

/** Where the master is, or the masters of a cluster are. */
export type MasterClientOptions = LocalMaster | RemoteMaster | RemoteMasters;

/**
 * A running master elsewhere, with the same interface as one in the process. Connects when it is
 * called. Over HTTPS, calls are those of the token's user: jobs, runners, wheel functions and
 * events by what the policy permits, everything else for who may do everything; `store.backup` is
 * for the master's host alone.
 *
 * With `urls`, calls go to one master of a cluster, and on to the next when that cannot be reached or
 * ends: what was not sent goes to the next; what only reads is repeated; jobs of who may do everything
 * are looked up by their job ids there, and followed on or published; streams of events go on after
 * the last event. What may have been done, and cannot be looked up, fails with ERR_OUTCOME_UNKNOWN.
 * @throws TypeError for an address without TLS that is not this host's. RemoteError from each
 * call: the master's code, or ERR_SOCKET when none can be reached
 */
export function connectMaster(options: MasterClientOptions): MasterApi {
  if (!('urls' in options)) return createMasterApi(callerOf(createConnection(options)));
  const suffix = `c${randomBytes(5).toString('hex')}`;
  return createMasterApi(
    failOverCaller(new MasterList(options), createJidSource(Date.now, suffix)),
  );
}

/** The master's interface over whatever carries its calls. */
export function createMasterApi(caller: MethodCaller): MasterApi {
  return {
    ...clientOf<CallableApi>(caller, rpcTable),
    asUser: (token) => createUserApi(caller, token),
  };
}

/** Calls each method of a table: as this user, if a token is given. */
function clientOf<T>(caller: MethodCaller, table: RpcTableOf<T>, token?: string, prefix = ''): T {
  const methods = Object.entries<RpcMethod | RpcTable>({ ...table }).map(([key, row]) => {
    const name = `${prefix}${key}`;
    if (!isRpcMethod(row)) return [key, clientOf<unknown>(caller, row, token, `${name}.`)];
    const parametersOf = (args: never): object => ({
      ...row.toParameters(...args),
      ...(token === undefined ? {} : { token }),
    });
    const callOnce = (...args: never): Promise<unknown> =>
      caller.call({ name, row }, parametersOf(args));
    const openStream = (...args: never): Promise<AsyncIterable<unknown>> =>
      caller.open({ name, row }, parametersOf(args), signalOf(args));
    const stream = (...args: never): AsyncIterable<unknown> => streamOf(() => openStream(...args));
    if (row.isLive === true) return [key, openStream];
    return [key, row.isStream ? stream : callOnce];
  });
  // The rows of `table` are of the methods of `T`, one by one.
  return Object.fromEntries(methods) as T;
}

function signalOf(args: readonly unknown[]): AbortSignal | undefined {
  return args.find((it) => it instanceof AbortSignal);
}

function createUserApi(caller: MethodCaller, token: string): UserApi {
  const { jobs, runners, wheel, keys, events, acl, users } = clientOf<CallableApi>(
    caller,
    rpcTable,
    token,
  );
  return {
    jobs,
    runners,
    wheel,
    keys,
    events: {
      subscribe: events.subscribe,
      subscribeBatches: async (request, signal) =>
        inSingleItemBatches(await events.subscribe(request, signal)),
      fire: events.fire,
    },
    permits: acl.permits,
    requireFullRights: users.requireFullRights,
    describeMaster: users.describeMaster,
  };
}

/** Over a connection, each comes by itself. */
async function* inSingleItemBatches<T>(
  items: AsyncIterable<T>,
): AsyncGenerator<readonly T[], void, void> {
  for await (const item of items) yield [item];
}

/**
 * An extension of a master on this host, by its local socket.
 * @param extension - its name, for instance `bridge`
 */
export function connectExtension(master: LocalMaster, extension: string): ExtensionClient {
  const connection = createConnection(master);
  return {
    call: (method, parameters = {}) => callMethod(connection, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      streamOf(() => openMethodStream(connection, `${extension}.${method}`, parameters, signal)),
  };
}

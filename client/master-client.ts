/** Interface of a master in another process, over its local socket or its HTTP API. */

import {
  type CallableApi,
  isRpcMethod,
  type MasterApi,
  type RpcMethod,
  type RpcTable,
  type RpcTableOf,
  rpcTable,
  type UserApi,
} from '#master';
import type { Connection } from './connection.ts';
import { callMethod, type MethodCaller, openMethodStream } from './rpc-client.ts';

/** Returns the master's interface. `caller` sends its calls. */
export function createMasterApi(caller: MethodCaller): MasterApi {
  return {
    ...clientOf<CallableApi>(caller, rpcTable),
    asUser: (token) => createUserApi(caller, token),
  };
}

/**
 * Returns functions that call the methods of a table. If a token is given, calls are made as its
 * user.
 */
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
  // `table` has one row for each method of `T`.
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

/** Wraps each item in a batch of its own, because items arrive one by one over a connection. */
async function* inSingleItemBatches<T>(
  items: AsyncIterable<T>,
): AsyncGenerator<readonly T[], void, void> {
  for await (const item of items) yield [item];
}

/**
 * Returns a stream that is opened at the first read. It ends when the reader stops or the signal is
 * aborted.
 */
async function* streamOf<T>(open: () => Promise<AsyncIterable<T>>): AsyncGenerator<T, void, void> {
  yield* await open();
}

/** Client of an extension of a running master. */
export interface ExtensionClient {
  /**
   * Calls a method that returns a value. `T` is the type that the extension documents.
   * @throws RemoteError
   */
  call<T>(method: string, parameters?: object): Promise<T>;
  /**
   * Calls a method that returns a stream. Abort the signal to end the stream.
   * @throws RemoteError from the iteration
   */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
}

/** Returns a client for an extension of the master to which `connection` leads. */
export function extensionOver(connection: Connection, extension: string): ExtensionClient {
  return {
    call: (method, parameters = {}) => callMethod(connection, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      streamOf(() => openMethodStream(connection, `${extension}.${method}`, parameters, signal)),
  };
}

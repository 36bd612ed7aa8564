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
import {
  type Connection,
  callMethod,
  createConnection,
  type LocalMaster,
  openMethodStream,
  type RemoteMaster,
  streamMethod,
} from './rpc.ts';

/** Where the master is. */
export type MasterClientOptions = LocalMaster | RemoteMaster;

/**
 * A running master elsewhere, with the same interface as one in the process. Connects when it is
 * called. Over HTTPS, calls are those of the token's user: jobs, runners, wheel functions and
 * events by what the policy permits, everything else for who may do everything; `store.backup` is
 * for the master's host alone.
 * @throws TypeError for an address without TLS that is not this host's. RemoteError from each
 * call: the master's code, or ERR_SOCKET when none can be reached
 */
export function connectMaster(options: MasterClientOptions): MasterApi {
  const connection = createConnection(options);
  return {
    ...clientOf<CallableApi>(connection, rpcTable),
    asUser: (token) => createUserApi(connection, token),
  };
}

/** Calls each method of a table over the connection: as this user, if a token is given. */
function clientOf<T>(connection: Connection, table: RpcTableOf<T>, token?: string, prefix = ''): T {
  const methods = Object.entries<RpcMethod | RpcTable>({ ...table }).map(([key, entry]) => {
    const name = `${prefix}${key}`;
    if (!isRpcMethod(entry)) return [key, clientOf<unknown>(connection, entry, token, `${name}.`)];
    const parametersOf = (args: never): object => ({
      ...entry.toParameters(...args),
      ...(token === undefined ? {} : { token }),
    });
    const callOnce = (...args: never): Promise<unknown> =>
      callMethod(connection, name, parametersOf(args));
    const stream = (...args: never): AsyncIterable<unknown> =>
      streamMethod(connection, name, parametersOf(args), signalOf(args));
    const openStream = (...args: never): Promise<AsyncIterable<unknown>> =>
      openMethodStream(connection, name, parametersOf(args), signalOf(args));
    if (entry.isLive === true) return [key, openStream];
    return [key, entry.isStream ? stream : callOnce];
  });
  // The rows of `table` are of the methods of `T`, one by one.
  return Object.fromEntries(methods) as T;
}

function signalOf(args: readonly unknown[]): AbortSignal | undefined {
  return args.find((it) => it instanceof AbortSignal);
}

function createUserApi(connection: Connection, token: string): UserApi {
  const { jobs, runners, wheel, keys, events, acl, users } = clientOf<CallableApi>(
    connection,
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
  };
}

/** Over a connection, each comes by itself. */
async function* inSingleItemBatches<T>(
  items: AsyncIterable<T>,
): AsyncGenerator<readonly T[], void, void> {
  for await (const item of items) yield [item];
}

/** Methods that an extension of a running master has. */
export interface ExtensionClient {
  /** One value. `T` is what the extension promises for the method. @throws RemoteError */
  call<T>(method: string, parameters?: object): Promise<T>;
  /** A stream; ends with the signal. @throws RemoteError from the iteration */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
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
      streamMethod(connection, `${extension}.${method}`, parameters, signal),
  };
}

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
  return createMasterApi(callerOf(createConnection(options)));
}

/** A method of the table, by its name on the wire. */
export interface NamedMethod {
  readonly name: string;
  readonly row: RpcMethod;
}

/** Carries calls of the method table to a master. */
export interface MethodCaller {
  call(method: NamedMethod, parameters: object): Promise<unknown>;
  /** A stream that has begun when it resolves. */
  open(
    method: NamedMethod,
    parameters: object,
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<unknown, void, void>>;
}

/** Carries calls over a connection. */
export function callerOf(connection: Connection): MethodCaller {
  return {
    call: ({ name }, parameters) => callMethod(connection, name, parameters),
    open: ({ name }, parameters, signal) => openMethodStream(connection, name, parameters, signal),
  };
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
    const stream = (...args: never): AsyncIterable<unknown> =>
      streamOf(caller, { name, row }, parametersOf(args), signalOf(args));
    const openStream = (...args: never): Promise<AsyncIterable<unknown>> =>
      caller.open({ name, row }, parametersOf(args), signalOf(args));
    if (row.isLive === true) return [key, openStream];
    return [key, row.isStream ? stream : callOnce];
  });
  // The rows of `table` are of the methods of `T`, one by one.
  return Object.fromEntries(methods) as T;
}

/** A stream that begins with the first read; ends when the reader stops or the signal fires. */
async function* streamOf(
  caller: MethodCaller,
  method: NamedMethod,
  parameters: object,
  signal: AbortSignal | undefined,
): AsyncGenerator<unknown, void, void> {
  yield* await caller.open(method, parameters, signal);
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

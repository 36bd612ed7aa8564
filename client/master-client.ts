/** The interface of a master elsewhere, over its local socket or its HTTP API. */

import {
  type Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request as requestHttp,
} from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { createInterface } from 'node:readline';
import {
  type CallableApi,
  type CallerProof,
  callerHeader,
  createCallerProof,
  fromJson,
  isRpcMethod,
  type MasterApi,
  methodsWithUser,
  type RpcMethod,
  type RpcTable,
  type RpcTableOf,
  rpcTable,
  type UserApi,
  writeMarkedJson,
} from '#master';
import { codeOf, parseJson } from '#runtime';
import { RemoteError } from './errors.ts';

/** A master on this host. */
export interface LocalMaster {
  /** Path of its local socket (`saltbridge.sock` in `sock_dir`). */
  readonly socketPath: string;
}

/** A master whose HTTP API is served (`rest_cherrypy:` or `saltbridge: api:`). */
export interface RemoteMaster {
  /**
   * Its address, `https://master:8000`, with `root_prefix` if there is one. Plain `http:` is taken
   * for this host alone.
   */
  readonly url: string | URL;
  /** Whose calls they are: Salt's token, from `logins.login`. Default: nobody's. */
  readonly token?: string;
  /** Certificates that are trusted, PEM. Default: those of the system. */
  readonly ca?: string | Uint8Array;
}

/** A way to a master. */
export interface Connection {
  /** For errors. */
  readonly name: string;
  /** A POST that its caller ends. */
  readonly open: (path: string, signal?: AbortSignal) => ClientRequest;
  /** Why it did not come through, and what to do. */
  readonly explain: (cause: NodeJS.ErrnoException) => string;
  /** Makes a proof which account calls. Default: it is not told. */
  readonly prove?: () => Promise<CallerProof | undefined>;
  /** Whether a stream that a closing master ends fails with ERR_MASTER_STOPPED. Default false. */
  readonly failsOnClose?: boolean;
}

const jsonHeaders = { 'content-type': 'application/json' };

export function localConnection({ socketPath }: LocalMaster, agent?: Agent): Connection {
  return {
    name: socketPath,
    open: (path, signal) =>
      requestHttp({
        socketPath,
        path,
        ...(agent === undefined ? {} : { agent }),
        method: 'POST',
        headers: jsonHeaders,
        ...abortSignalOption(signal),
      }),
    explain: explainLocal,
    prove: () => createCallerProof(socketPath),
  };
}

/** @throws TypeError for an address that is none, or over which tokens would go in the clear */
export function remoteConnection({ url, token, ca }: RemoteMaster): Connection {
  const { protocol, hostname, port, pathname, host } = new URL(url);
  const isPlain = protocol === 'http:' && isThisHost(hostname);
  if (protocol !== 'https:' && !isPlain) throw new TypeError('expected an address with https:');
  const prefix = pathname.replace(/\/+$/, '');
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const common: RequestOptions = {
    host: hostname.replace(/^\[|\]$/g, ''),
    method: 'POST',
    headers: { ...jsonHeaders, ...authorization },
    ...(port === '' ? {} : { port: Number(port) }),
  };
  const name = `${protocol}//${host}${prefix}`;
  if (isPlain) {
    const open: Connection['open'] = (path, signal) =>
      requestHttp({ ...common, path: `${prefix}${path}`, ...abortSignalOption(signal) });
    return { name, open, explain: explainRemote };
  }
  // A handshake costs more than a call: connections are kept for the next one.
  const agent = new SecureAgent({
    keepAlive: true,
    minVersion: 'TLSv1.2',
    ...(ca === undefined ? {} : { ca: typeof ca === 'string' ? ca : Buffer.from(ca) }),
  });
  const open: Connection['open'] = (path, signal) =>
    requestHttps({ ...common, agent, path: `${prefix}${path}`, ...abortSignalOption(signal) });
  return { name, open, explain: explainRemote };
}

function isThisHost(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

function abortSignalOption(signal: AbortSignal | undefined): { readonly signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

function explainLocal(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED') {
    return 'no master listens here; start one with: saltbridge master';
  }
  if (cause.code === 'EACCES') return "permission denied; run this as the master's user";
  return `cannot reach the master (${cause.code ?? cause.message})`;
}

function explainRemote(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ECONNREFUSED') {
    return 'nobody listens here; give the master a port under saltbridge: api:';
  }
  return `cannot reach the master (${cause.code ?? cause.message})`;
}

// Calls: see master/rpc/server.ts for their form.

/** One value. `T` is what the method table promises for `method`. */
export async function callMethod<T>(
  connection: Connection,
  method: string,
  parameters: object,
): Promise<T> {
  const response = await postRequest(connection, method, parameters);
  const body = parseRpcLine(connection, await readBody(connection, response));
  if (body.error !== undefined) throw toRemoteError(connection, body.error);
  return fromJson(body.result) as T;
}

/** A stream that has begun when it resolves. */
export async function openMethodStream<T>(
  connection: Connection,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): Promise<AsyncGenerator<T, void, void>> {
  if (signal?.aborted) return readStream<T>(connection, undefined, signal);
  const opened = postRequest(connection, method, parameters, signal);
  const response = await opened.catch((error: unknown) => {
    if (signal?.aborted) return undefined;
    throw error;
  });
  const isStream = response?.headers['content-type'] === 'application/x-ndjson';
  // What is refused before it begins is told at once.
  if (response !== undefined && !isStream) {
    throw toRemoteError(
      connection,
      parseRpcLine(connection, await readBody(connection, response)).error,
    );
  }
  return readStream<T>(connection, response, signal);
}

async function* readStream<T>(
  connection: Connection,
  response: IncomingMessage | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, void> {
  if (response === undefined) return;
  try {
    yield* readStreamItems<T>(connection, response);
  } catch (error) {
    // Whoever ended it has what they wanted.
    if (signal?.aborted) return;
    throw lostConnection(connection, error);
  } finally {
    response.destroy();
  }
}

async function* readStreamItems<T>(
  connection: Connection,
  response: IncomingMessage,
): AsyncGenerator<T, void, void> {
  for await (const text of createInterface({ input: response, crlfDelay: Infinity })) {
    const line = parseRpcLine(connection, text);
    if (line.end === true) {
      if (line.closed === true && connection.failsOnClose === true) throw closedError(connection);
      return;
    }
    if (line.error !== undefined) throw toRemoteError(connection, line.error);
    yield fromJson(line.item) as T;
  }
  throw new RemoteError('ERR_SOCKET', `${connection.name}: the master closed the connection`);
}

async function postRequest(
  connection: Connection,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  // What a user's token calls is the user's, whatever the account.
  const hasToken = 'token' in parameters && parameters.token !== undefined;
  const isOfAccount = methodsWithUser.has(method) && !hasToken;
  const proof = isOfAccount ? await connection.prove?.() : undefined;
  try {
    return await sendRequest(connection, { method, parameters, signal, secret: proof?.secret });
  } finally {
    await proof?.remove();
  }
}

interface RpcRequest {
  readonly method: string;
  readonly parameters: object;
  readonly signal: AbortSignal | undefined;
  /** Of the proof which account calls. */
  readonly secret: string | undefined;
}

function sendRequest(
  { name, open, explain }: Connection,
  { method, parameters, signal, secret }: RpcRequest,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = open(`/rpc/${method}`, signal);
    if (secret !== undefined) request.setHeader(callerHeader, secret);
    let wasSent = false;
    // protection: sent-before-connected
    onConnected(request, () => {
      wasSent = true;
    });
    request.once('response', resolve);
    request.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new RemoteError('ERR_SOCKET', `${name}: ${explain(cause)}`, { cause, wasSent }));
    });
    // Parameters are made of Salt's values: the interface's types say so.
    request.end(writeMarkedJson(parameters));
  });
}

/** Calls the listener before the first byte of a request goes to whom it is for. */
function onConnected(request: ClientRequest, listener: () => void): void {
  request.once('socket', (socket) => {
    if (request.reusedSocket || !socket.connecting) listener();
    else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', listener);
  });
}

async function readBody(connection: Connection, response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) chunks.push(chunk);
  } catch (error) {
    throw lostConnection(connection, error);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** What reading an answer failed with: the master ended, unless it said what failed. */
function lostConnection({ name }: Connection, cause: unknown): unknown {
  const isLost = ['ABORT_ERR', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(codeOf(cause) ?? '');
  if (cause instanceof RemoteError || !isLost) return cause;
  return new RemoteError('ERR_SOCKET', `${name}: the master closed the connection`, { cause });
}

/** A line as the master writes it. */
interface RpcLine {
  readonly result?: unknown;
  readonly item?: unknown;
  readonly end?: boolean;
  /** It ended because the master is being closed. */
  readonly closed?: boolean;
  readonly error?: unknown;
}

/** @throws RemoteError ERR_SOCKET for what no master wrote: a proxy, for instance */
function parseRpcLine({ name }: Connection, text: string): RpcLine {
  try {
    const line: unknown = parseJson(text);
    if (typeof line === 'object' && line !== null) return line;
  } catch (cause) {
    throw new RemoteError('ERR_SOCKET', `${name}: what answers is no master`, { cause });
  }
  throw new RemoteError('ERR_SOCKET', `${name}: what answers is no master`);
}

/** What fastify says of requests that come while it is being closed. */
const closingServer = 'Service Unavailable';

function closedError({ name }: Connection): RemoteError {
  return new RemoteError('ERR_MASTER_STOPPED', `${name}: the master is being closed`);
}

function toRemoteError({ name }: Connection, error: unknown): RemoteError {
  if (typeof error === 'object' && error !== null && 'code' in error) {
    const message = 'message' in error ? String(error.message) : '';
    return new RemoteError(String(error.code), message);
  }
  if (error === closingServer) {
    const message = `${name}: the HTTP API is being closed; nothing was done`;
    return new RemoteError('ERR_MASTER_STOPPED', message, { wasSent: false });
  }
  // Of the HTTP server, for instance where it has no such path.
  return typeof error === 'string'
    ? new RemoteError(error, `${name}: the HTTP API refused it`)
    : new RemoteError('ERR_SOCKET', `${name}: what answers is no master`);
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

// The method table over whatever carries its calls.

/** A running master on this host, with the same interface as one in the process. */
export function connectLocalMaster(master: LocalMaster): MasterApi {
  return createMasterApi(callerOf(localConnection(master)));
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

/** A stream that begins with the first read; ends when the reader stops or the signal fires. */
async function* streamOf<T>(open: () => Promise<AsyncIterable<T>>): AsyncGenerator<T, void, void> {
  yield* await open();
}

/** Methods that an extension of a running master has. */
export interface ExtensionClient {
  /** One value. `T` is what the extension promises for the method. @throws RemoteError */
  call<T>(method: string, parameters?: object): Promise<T>;
  /** A stream; ends with the signal. @throws RemoteError from the iteration */
  stream<T>(method: string, parameters?: object, signal?: AbortSignal): AsyncIterable<T>;
}

/** An extension of one master. */
export function extensionOver(connection: Connection, extension: string): ExtensionClient {
  return {
    call: (method, parameters = {}) => callMethod(connection, `${extension}.${method}`, parameters),
    stream: (method, parameters = {}, signal) =>
      streamOf(() => openMethodStream(connection, `${extension}.${method}`, parameters, signal)),
  };
}

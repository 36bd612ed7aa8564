/**
 * Calls methods of a master over a connection. master/rpc/call-server.ts documents the format of
 * calls.
 */

import type { ClientRequest, IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import {
  callerHeader,
  fromJson,
  methodsWithUser,
  parseExactJson,
  type RpcMethod,
  writeMarkedJson,
} from '#master';
import { codeOf, JsonError } from '#runtime';
import type { Connection } from './connection.ts';
import { RemoteError } from './errors.ts';

/**
 * Calls a method that returns a value. `T` is the type that the method table documents for
 * `method`.
 */
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

/** Opens a stream. Resolves when the stream has started. */
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
  // A master can reject a stream before it starts. Report this immediately.
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
    // The caller ended the stream, so this is not an error.
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
  // Prove the account only for calls without a token. Calls with a token have the rights of its
  // user.
  const hasToken = 'token' in parameters && parameters.token !== undefined;
  const isOfAccount = methodsWithUser.has(method) && !hasToken;
  const body = writeParameters(parameters);
  const proof = isOfAccount ? await connection.prove?.() : undefined;
  try {
    return await sendRequest(connection, { method, body, signal, secret: proof?.secret });
  } finally {
    await proof?.remove();
  }
}

/**
 * Returns the body of a request. The types of the interface guarantee that the parameters can be
 * sent, except for their depth.
 * @throws RemoteError ERR_ARGS if the parameters are nested too deeply
 */
function writeParameters(parameters: object): string {
  try {
    // The master reads a plain `5.0` as a number, because other clients write numbers in this form.
    return writeMarkedJson(parameters, 'mark');
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause;
    const text = `the parameters of the call have ${cause.message}; send a flatter value`;
    throw new RemoteError('ERR_ARGS', text, { cause, wasSent: false });
  }
}

interface RpcRequest {
  readonly method: string;
  readonly body: string;
  readonly signal: AbortSignal | undefined;
  /** Secret that proves the account under which this process runs. */
  readonly secret: string | undefined;
}

function sendRequest(
  { name, open, explain }: Connection,
  { method, body, signal, secret }: RpcRequest,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = open(`/rpc/${method}`, signal);
    if (secret !== undefined) request.setHeader(callerHeader, secret);
    let wasSent = false;
    onConnected(request, () => {
      wasSent = true;
    });
    request.once('response', resolve);
    request.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new RemoteError('ERR_SOCKET', `${name}: ${explain(cause)}`, { cause, wasSent }));
    });
    request.end(body);
  });
}

/**
 * Calls the listener when the request is about to be sent: the connection is open, and no byte has
 * been sent.
 */
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

/**
 * Returns the error for a response that could not be read. It is ERR_SOCKET if the connection was
 * lost, otherwise the cause.
 */
function lostConnection({ name }: Connection, cause: unknown): unknown {
  const isLost = ['ABORT_ERR', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(codeOf(cause) ?? '');
  if (cause instanceof RemoteError || !isLost) return cause;
  return new RemoteError('ERR_SOCKET', `${name}: the master closed the connection`, { cause });
}

/**
 * Parsed line of a response. A stream has one line for each item, and a last line with `end` or
 * `error`. Any other response is one line with `result` or `error`.
 */
interface RpcLine {
  readonly result?: unknown;
  readonly item?: unknown;
  readonly end?: boolean;
  /** Whether the stream ended because the master shuts down. */
  readonly closed?: boolean;
  readonly error?: unknown;
}

/**
 * Parses a line of the response.
 * @throws RemoteError ERR_SOCKET if the line does not come from a master, but for example from a
 * proxy
 */
function parseRpcLine({ name }: Connection, text: string): RpcLine {
  try {
    const line = parseExactJson(text);
    if (typeof line === 'object' && line !== null) return line;
  } catch (cause) {
    throw new RemoteError(
      'ERR_SOCKET',
      `${name}: the response does not come from a saltbridge master; check the address`,
      { cause },
    );
  }
  throw new RemoteError(
    'ERR_SOCKET',
    `${name}: the response does not come from a saltbridge master; check the address`,
  );
}

/** Error text of fastify's response to requests that arrive while it shuts down. */
const closingServer = 'Service Unavailable';

function closedError({ name }: Connection): RemoteError {
  return new RemoteError('ERR_MASTER_STOPPED', `${name}: the master is shutting down`);
}

function toRemoteError({ name }: Connection, error: unknown): RemoteError {
  if (typeof error === 'object' && error !== null && 'code' in error) {
    const message = 'message' in error ? String(error.message) : '';
    return new RemoteError(String(error.code), message);
  }
  if (error === closingServer) {
    const message = `${name}: the HTTP API is shutting down; nothing was done`;
    return new RemoteError('ERR_MASTER_STOPPED', message, { wasSent: false });
  }
  // The HTTP server itself wrote this error, for example for an unknown path.
  return typeof error === 'string'
    ? new RemoteError(
        error,
        `the HTTP API rejected the call of ${name}; check the address and the token`,
      )
    : new RemoteError(
        'ERR_SOCKET',
        `${name}: the response does not come from a saltbridge master; check the address`,
      );
}

/** Method of the RPC table, and its name in requests. */
export interface NamedMethod {
  readonly name: string;
  readonly row: RpcMethod;
}

/** Sender of calls to a master, for the methods in the RPC table. */
export interface MethodCaller {
  call(method: NamedMethod, parameters: object): Promise<unknown>;
  /** Opens a stream. Resolves when the stream has started. */
  open(
    method: NamedMethod,
    parameters: object,
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<unknown, void, void>>;
}

/** Returns a caller that uses this connection. */
export function callerOf(connection: Connection): MethodCaller {
  return {
    call: ({ name }, parameters) => callMethod(connection, name, parameters),
    open: ({ name }, parameters, signal) => openMethodStream(connection, name, parameters, signal),
  };
}

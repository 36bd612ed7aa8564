/** Calls of a master's interface: see master/rpc/server.ts for the form. */
import type { IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { fromJson, writeMarkedJson } from '../master/index.ts';
import { parseJson } from '../runtime/index.ts';
import type { Connection } from './connection.ts';
import { RemoteError } from './errors.ts';

/** One value. `T` is what the method table promises for `method`. */
export async function callOnce<T>(
  connection: Connection,
  method: string,
  parameters: object,
): Promise<T> {
  const body = parse(connection, await textOf(await post(connection, method, parameters)));
  if (body.error !== undefined) throw toError(connection, body.error);
  return fromJson(body.result) as T;
}

/** A stream that begins with the first read; ends when the reader stops or the signal fires. */
export async function* callStream<T>(
  connection: Connection,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): AsyncGenerator<T, void, void> {
  yield* await openStream<T>(connection, method, parameters, signal);
}

/** A stream that has begun when it resolves. */
export async function openStream<T>(
  connection: Connection,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): Promise<AsyncGenerator<T, void, void>> {
  if (signal?.aborted) return readStream<T>(connection, undefined, signal);
  const opened = post(connection, method, parameters, signal);
  const response = await opened.catch((error: unknown) => {
    if (signal?.aborted) return undefined;
    throw error;
  });
  const isStream = response?.headers['content-type'] === 'application/x-ndjson';
  // What is refused before it begins is told at once.
  if (response !== undefined && !isStream) {
    throw toError(connection, parse(connection, await textOf(response)).error);
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
    yield* itemsOf<T>(connection, response);
  } catch (error) {
    // Whoever ended it has what they wanted.
    if (signal?.aborted) return;
    throw error;
  } finally {
    response.destroy();
  }
}

async function* itemsOf<T>(
  connection: Connection,
  response: IncomingMessage,
): AsyncGenerator<T, void, void> {
  for await (const text of createInterface({ input: response, crlfDelay: Infinity })) {
    const line = parse(connection, text);
    if (line.end === true) return;
    if (line.error !== undefined) throw toError(connection, line.error);
    yield fromJson(line.item) as T;
  }
  throw new RemoteError('ERR_SOCKET', `${connection.name}: the master closed the connection`);
}

function post(
  { name, open, explain }: Connection,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = open(`/rpc/${method}`, signal);
    request.once('response', resolve);
    request.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new RemoteError('ERR_SOCKET', `${name}: ${explain(cause)}`, { cause }));
    });
    // Parameters are made of Salt's values: the interface's types say so.
    request.end(writeMarkedJson(parameters));
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** A line as the master writes it. */
interface Line {
  readonly result?: unknown;
  readonly item?: unknown;
  readonly end?: boolean;
  readonly error?: unknown;
}

/** @throws RemoteError ERR_SOCKET for what no master wrote: a proxy, for instance */
function parse({ name }: Connection, text: string): Line {
  try {
    const line: unknown = parseJson(text);
    if (typeof line === 'object' && line !== null) return line;
  } catch (cause) {
    throw new RemoteError('ERR_SOCKET', `${name}: what answers is no master`, { cause });
  }
  throw new RemoteError('ERR_SOCKET', `${name}: what answers is no master`);
}

function toError({ name }: Connection, error: unknown): RemoteError {
  if (typeof error === 'object' && error !== null && 'code' in error) {
    const message = 'message' in error ? String(error.message) : '';
    return new RemoteError(String(error.code), message);
  }
  // Of the HTTP server, for instance where it has no such path.
  return typeof error === 'string'
    ? new RemoteError(error, `${name}: the HTTP API refused it`)
    : new RemoteError('ERR_SOCKET', `${name}: what answers is no master`);
}

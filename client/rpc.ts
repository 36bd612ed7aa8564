/** Calls over a master's local socket: see master/rpc/server.ts for the form. */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { fromJson, toJson } from '../master/index.ts';
import { RemoteError } from './errors.ts';

/** One value. `T` is what the method table promises for `method`. */
export async function callOnce<T>(
  socketPath: string,
  method: string,
  parameters: object,
): Promise<T> {
  const response = await post(socketPath, method, parameters);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  if (body.error !== undefined) throw new RemoteError(body.error.code, body.error.message);
  return fromJson(body.result) as T;
}

/** A stream; ends the call when the reader stops or the signal fires. */
export async function* callStream<T>(
  socketPath: string,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): AsyncGenerator<T, void, void> {
  const response = await post(socketPath, method, parameters, signal);
  try {
    for await (const text of createInterface({ input: response, crlfDelay: Infinity })) {
      const line = JSON.parse(text);
      if (line.end === true) return;
      if (line.error !== undefined) throw new RemoteError(line.error.code, line.error.message);
      yield fromJson(line.item) as T;
    }
    if (signal?.aborted) return;
    throw new RemoteError('ERR_SOCKET', `${socketPath}: the master closed the connection`);
  } finally {
    response.destroy();
  }
}

function post(
  socketPath: string,
  method: string,
  parameters: object,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      socketPath,
      path: `/rpc/${method}`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      ...(signal === undefined ? {} : { signal }),
    });
    request.once('response', resolve);
    request.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new RemoteError('ERR_SOCKET', explain(socketPath, cause), { cause }));
    });
    // Parameters are made of Salt's values: the interface's types say so.
    request.end(JSON.stringify(toJson(parameters as Parameters<typeof toJson>[0])));
  });
}

function explain(socketPath: string, cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED') {
    return `${socketPath}: no master listens here; start one with: saltbridge master`;
  }
  if (cause.code === 'EACCES') {
    return `${socketPath}: permission denied; run this as the master's user`;
  }
  return `${socketPath}: cannot reach the master (${cause.code ?? cause.message})`;
}

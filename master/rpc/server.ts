/**
 * The local socket: the library's interface as HTTP over a Unix socket (0600, in a 0700 folder).
 * `POST /rpc/<method>` with the parameters as JSON; one value comes as `{"result": …}`, a stream
 * as lines of JSON: `{"item": …}` each, then `{"end": true}` or `{"error": …}`.
 */
import { chmod, mkdtemp, rename, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import type { Logger } from 'pino';
import { makeDirectory, SendPool, StepScheduler } from '../../runtime/index.ts';
import type { MasterApi } from '../api.ts';
import { MasterError } from '../errors.ts';
import { type RpcMethod, rpcMethods } from './methods.ts';
import { failCall, parseParameters, refuseMethod, serveCall } from './serve-call.ts';

const maxBodyBytes = 64 * 1024 * 1024;

/** Bytes that may wait for the readers of all streams. */
const maxStreamBytes = 256 * 1024 * 1024;

/** Serves one master's interface on its local socket. */
export class RpcServer {
  readonly #api: MasterApi;
  readonly #log: Logger;
  readonly #more: ReadonlyMap<string, RpcMethod>;
  readonly #sendPool: SendPool;
  readonly #server: Server;
  readonly #scheduler = new StepScheduler();
  readonly #calls = new Set<AbortController>();
  #socketPath: string | undefined;

  /**
   * @param more - methods beside those of every master
   * @param maxEventBytes - the largest event: `max_event_size`
   */
  constructor(
    api: MasterApi,
    log: Logger,
    more: ReadonlyMap<string, RpcMethod> = new Map(),
    maxEventBytes = 1_048_576,
  ) {
    this.#api = api;
    this.#log = log;
    this.#more = more;
    this.#sendPool = new SendPool({ messageBytes: maxEventBytes, totalBytes: maxStreamBytes });
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        this.#log.error({ err: error }, 'local request failed');
        response.destroy();
      });
    });
  }

  /**
   * Binds the socket. One left behind by a process that is gone is replaced.
   * @throws MasterError ERR_SOCKET when another master listens on it
   */
  async listen(socketPath: string): Promise<void> {
    await makeDirectory(path.dirname(socketPath), 0o700);
    if (await isListening(socketPath)) {
      throw new MasterError('ERR_SOCKET', `${socketPath}: another master listens on this socket`);
    }
    try {
      await this.#bind(socketPath);
    } catch (cause) {
      throw new MasterError('ERR_SOCKET', `${socketPath}: cannot listen`, { cause });
    }
  }

  /**
   * Binds in a new folder that only this user may enter, and moves the socket into place with its
   * rights set: nobody else can connect at any moment. (A umask would do, but it is the whole
   * process's, and worker threads may not set it.)
   */
  async #bind(socketPath: string): Promise<void> {
    const directory = await mkdtemp(`${path.dirname(socketPath)}/.`);
    const bound = path.join(directory, 's');
    try {
      await new Promise<void>((resolve, reject) => {
        this.#server.once('error', reject);
        this.#server.listen(bound, resolve);
      });
      // protection: open-socket
      await chmod(bound, 0o600);
      await rename(bound, socketPath);
      this.#socketPath = socketPath;
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Ends running streams, lets short calls finish (at most `graceMs`) and closes. */
  async close(graceMs = 5000): Promise<void> {
    for (const call of this.#calls) call.abort();
    if (this.#socketPath !== undefined) await rm(this.#socketPath, { force: true });
    this.#socketPath = undefined;
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeIdleConnections();
    // A caller that never ends its request, or never reads its answer, holds nobody.
    const grace = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await closed;
    clearTimeout(grace);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = request.url?.startsWith('/rpc/') ? request.url.slice('/rpc/'.length) : '';
    const found = request.method === 'POST' ? this.#find(name) : undefined;
    if (found === undefined) {
      refuseMethod(response, name);
      return;
    }
    const call = new AbortController();
    this.#calls.add(call);
    response.on('close', () => call.abort());
    const shared = {
      api: this.#api,
      log: this.#log,
      steps: this.#scheduler,
      sendPool: this.#sendPool,
    };
    const served = { name, method: found, response, ...shared };
    try {
      const parameters = await parseParameters(await readBody(request), this.#scheduler);
      await serveCall({ ...served, parameters, signal: call.signal });
    } catch (error) {
      failCall(served, error);
    } finally {
      this.#calls.delete(call);
    }
  }

  #find(name: string): RpcMethod | undefined {
    return rpcMethods.get(name) ?? this.#more.get(name);
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  // Known in advance from our own client; refused before it is read, the caller is still there.
  if (Number(request.headers['content-length']) > maxBodyBytes) throw bodyTooLarge();
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw bodyTooLarge();
    chunks.push(chunk);
  }
  return chunks;
}

function bodyTooLarge(): MasterError {
  return new MasterError('ERR_ARGS', `the parameters are larger than ${maxBodyBytes} bytes`);
}

function isListening(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(socketPath);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
}

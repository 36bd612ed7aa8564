/**
 * The local socket offers the master's interface as HTTP over a Unix socket (mode 0600, in a
 * directory of mode 0700). `POST /rpc/<method>` takes the parameters as JSON. A single value is
 * returned as `{"result": …}`. A stream is returned as JSON lines: `{"item": …}` for each item,
 * then `{"end": true}` or `{"error": …}`.
 */

import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import type { Logger } from 'pino';
import { isWireMap, type WireValue } from '#minion-protocol';
import { listenPrivately, makeDirectory, SendPool, StepScheduler } from '#runtime';
import { MasterError } from '../api/index.ts';
import { CallServer, type CallServerOptions } from './call-server.ts';
import { accountOfCaller, callerHeader, removeCallerProofs } from './caller-proof.ts';
import { rpcLimits } from './limits.ts';
import { methodsWithUser } from './methods.ts';

const maxBodyBytes = 64 * 1024 * 1024;

/** Serves one master's interface on its local socket. */
export class RpcServer {
  readonly #log: Logger;
  readonly #calls: CallServer;
  readonly #server: Server;
  readonly #underWay = new Set<AbortController>();
  #socketPath: string | undefined;

  /** @param maxEventBytes - maximum size of an event, in bytes (`max_event_size`) */
  constructor(
    options: Pick<CallServerOptions, 'api' | 'calls' | 'log' | 'methods'>,
    maxEventBytes = 1_048_576,
  ) {
    this.#log = options.log;
    const sendPool = new SendPool(rpcLimits.streamBytes, { messageBytes: maxEventBytes });
    this.#calls = new CallServer({ ...options, steps: new StepScheduler(), sendPool });
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        this.#log.error(
          { err: error },
          'internal error while handling a request on the local socket',
        );
        response.destroy();
      });
    });
  }

  /**
   * Listens on the socket. If a former process left the socket file behind, replaces the file.
   * @throws MasterError ERR_SOCKET if another master listens on the socket, or the socket cannot be
   * opened
   */
  async listen(socketPath: string): Promise<void> {
    await makeDirectory(path.dirname(socketPath), 0o700);
    if (await isListening(socketPath)) {
      throw new MasterError(
        'ERR_SOCKET',
        `${socketPath}: another master already listens on this socket`,
      );
    }
    try {
      await removeCallerProofs(socketPath);
      await listenPrivately(this.#server, socketPath);
      this.#socketPath = socketPath;
    } catch (cause) {
      throw new MasterError('ERR_SOCKET', `${socketPath}: cannot listen`, { cause });
    }
  }

  /** Ends running streams, and informs their readers that the master is closing. */
  endStreams(): void {
    for (const call of this.#underWay) call.abort();
  }

  /** Ends running streams, waits at most `graceMs` for other calls, and closes the socket. */
  async close(graceMs = 5000): Promise<void> {
    this.endStreams();
    if (this.#socketPath !== undefined) await rm(this.#socketPath, { force: true });
    this.#socketPath = undefined;
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeIdleConnections();
    // A client that never completes its request, or never reads its response, must not delay the
    // shutdown.
    const grace = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await closed;
    clearTimeout(grace);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isCall = request.method === 'POST' && request.url?.startsWith('/rpc/');
    const name = request.url?.replace(/^\/rpc\//, '') ?? '';
    const call = new AbortController();
    this.#underWay.add(call);
    response.on('close', () => {
      if (!response.writableFinished) call.abort();
    });
    const { signal } = call;
    await this.#calls.serve({ name: isCall ? name : '', response, signal }, async () => {
      const given = await this.#calls.parseParameters(await readBody(request));
      return { parameters: await this.#withUser(name, given, request) };
    });
    this.#underWay.delete(call);
  }

  /**
   * Sets the parameter `user` of a call to the account of its client, if the method has this
   * parameter and the call has no token.
   */
  async #withUser(
    name: string,
    parameters: WireValue,
    { headers }: IncomingMessage,
  ): Promise<WireValue> {
    const socketPath = this.#socketPath;
    if (!methodsWithUser.has(name) || !isWireMap(parameters)) return parameters;
    if (socketPath === undefined || parameters.token !== undefined) return parameters;
    const account = await accountOfCaller(socketPath, headers[callerHeader]);
    return { ...parameters, user: userOfCall(parameters.user, account) };
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  // The client of this package sends the length of the body. If the length is too large, the body
  // is not read, so that the client can still read the response.
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
  return new MasterError('ERR_ARGS', `the parameters exceed ${maxBodyBytes} bytes`);
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

/**
 * Returns the user of a call: the account of its client. As in Salt, a client may state another
 * name of the form `sudo_<name>` instead.
 */
function userOfCall(given: unknown, account: string): string {
  return typeof given === 'string' && given.startsWith('sudo_') ? given : account;
}

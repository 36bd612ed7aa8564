/**
 * Salt's HTTP API for one master. It runs in a server of its own, or in the HTTP server of another
 * service.
 */
import { setMaxListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { createSilentLogger } from '#master';
import { createJidSource } from '#minion-protocol';
import { Budget, inMilliseconds, SendPool } from '#runtime';
import { AnswerWriter } from './answer-writer.ts';
import { BodyReader } from './body.ts';
import { readTls, renewTls } from './certificate.ts';
import { clientNames } from './clients.ts';
import { connectionsOf, type HttpConnectionLimits, HttpConnections } from './connections.ts';
import type { ApiContext, ServedMaster } from './context.ts';
import { descriptorLimit } from './descriptor-limit.ts';
import { SaltApiError } from './errors.ts';
import { EventEncoder, FlushTimer, StreamLimiter } from './event-stream.ts';
import { FormattedTexts } from './formatted-events.ts';
import { StatePace } from './formatted-stream.ts';
import { createHostGuard, isLoopback } from './host-guard.ts';
import { apiLimits, unreadMs } from './limits.ts';
import {
  type CompleteOptions,
  completeOptions,
  type SaltApiOptions,
  saltApiOptions,
} from './options.ts';
import { createServer } from './server.ts';
import { MemorySessions, type Sessions } from './sessions.ts';
import { SharedSessions } from './shared-sessions.ts';
import { acceptWebsocket } from './websocket.ts';

/** The HTTP API of one master. */
export interface SaltApi {
  /**
   * Handles a request that the caller's own HTTP server has received. That server must enforce
   * limits for the time and the size of request heads.
   */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Handles a request for WebSocket that a client has sent to the caller's own HTTP server. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Uint8Array): void;
  /**
   * Listens on the configured port with a server of its own.
   * @returns the address
   * @throws SaltApiError ERR_HTTP_LISTEN
   */
  listen(): Promise<AddressInfo>;
  /**
   * Checks immediately whether the files of `tls` have changed. Without this call, a change is
   * noticed within a minute.
   * @returns the certificates that were replaced
   * @throws the system's or OpenSSL's error; the previous certificates remain in use
   */
  renewCertificate(): Promise<readonly string[]>;
  /** Ends all streams, waits up to 5 seconds for requests in progress, and closes the server. */
  close(): Promise<void>;
}

/** Interval between two writes to an event stream, in milliseconds. */
const flushIntervalMs = 25;

/** Time for requests in progress to finish on close, in milliseconds. */
const graceMs = 5000;

/**
 * Creates the HTTP API. The master must be running when requests arrive. Closing the API does not
 * close the master.
 * @param options - replace the options of the master's configuration (`saltbridge: api:` or
 * `rest_cherrypy:`), if the master runs in this process
 * @throws SaltApiError ERR_HTTP_LISTEN if a file that an option names cannot be read
 */
export async function createSaltApi(
  master: ServedMaster,
  options: SaltApiOptions = {},
): Promise<SaltApi> {
  const { config } = master;
  const configured = config === undefined ? undefined : saltApiOptions(config);
  const complete = completeOptions(options, configured);
  const closing = new AbortController();
  // Each request in progress adds a listener to this signal.
  setMaxListeners(0, closing.signal);
  const wanted = complete.clients;
  const bodies = new BodyReader(complete.maxRequestBodyValues);
  const context: ApiContext = {
    master,
    options: complete,
    hostGuard: createHostGuard(complete),
    sessions: await openSessions(complete),
    connections: new HttpConnections(connectionLimits(complete)),
    bodies,
    answers: new AnswerWriter(bodies),
    anonymousBodyBudget: new Budget(apiLimits.openBodies),
    answerBudget: new Budget(apiLimits.answerBytes),
    streams: new StreamLimiter(complete.streams, complete.streamsPerToken),
    sendPool: new SendPool(apiLimits.streamBytes, {
      messageBytes: complete.maxEventSize,
      totalBytes: complete.streamBytes,
      stallMs: unreadMs,
    }),
    clients: new Set(clientNames.filter((name) => wanted?.includes(name) ?? true)),
    nextJid: createJidSource(),
    closing: closing.signal,
    eventEncoder: new EventEncoder(),
    formattedTexts: new FormattedTexts(complete.maxEventSize),
    statePace: new StatePace(),
    flushTimer: new FlushTimer(flushIntervalMs),
    log: complete.logger ?? createSilentLogger(),
  };
  const tls = complete.tls === undefined ? undefined : await readTls(complete.tls);
  const app = await createServer(context, tls);
  const certificate = complete.tls && tls && renewTls(app.server, complete.tls, tls, context.log);
  const sockets = new Set<Duplex>();
  const upgrade: SaltApi['upgrade'] = (request, socket, head) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // `acceptWebsocket` always answers the request or ends the connection.
    acceptWebsocket(context, request, socket, head).catch(() => socket.destroy());
  };
  app.server.on('upgrade', upgrade);
  return {
    upgrade,
    handle: (request, response) => {
      if (context.connections.admitRequest(request, response)) app.routing(request, response);
    },
    listen: () => listen(app, complete),
    renewCertificate: async () => {
      const isRenewed = await certificate?.check();
      return isRenewed && complete.tls ? [complete.tls.certificate] : [];
    },
    close: async () => {
      closing.abort();
      certificate?.stop();
      for (const socket of sockets) socket.end();
      const grace = setTimeout(() => {
        app.server.closeAllConnections();
        for (const socket of sockets) socket.destroy();
      }, graceMs);
      await app.close();
      context.connections.close();
      clearTimeout(grace);
      const ending = inMilliseconds(context.sessions.stop(), graceMs);
      await Promise.all([bodies.close(), context.answers.close(), ending]);
    },
  };
}

/** Opens the sessions. If an extension host is given, the members of a cluster share them. */
async function openSessions({
  sessionIdleSeconds,
  extensionHost,
}: CompleteOptions): Promise<Sessions> {
  const idleMs = sessionIdleSeconds * 1000;
  const monotonic = (): number => performance.now();
  if (extensionHost?.shared.cluster === undefined) {
    return new MemorySessions({ idleMs, now: monotonic });
  }
  const { shared, now } = extensionHost;
  return SharedSessions.open({ shared, now, monotonic, idleMs });
}

function connectionLimits(options: CompleteOptions): HttpConnectionLimits {
  const { requestTimeoutMs, maxRequestBodySize } = options;
  // The limit must allow one body of the maximum size, including what is counted for its pieces.
  const bodyBytesPerAddress = Math.max(options.bodyBytesPerAddress, maxRequestBodySize * 1.25);
  return {
    ...connectionsOf(options, descriptorLimit()),
    bodyBytes: Math.max(options.bodyBytes, bodyBytesPerAddress),
    bodyBytesPerAddress,
    requestTimeoutMs,
  };
}

async function listen(
  app: FastifyInstance,
  { tls, disableSsl, host, port }: CompleteOptions,
): Promise<AddressInfo> {
  if (tls === undefined && !disableSsl && !isLoopback(host)) {
    throw new SaltApiError(
      'ERR_HTTP_LISTEN',
      `${host}: TLS is not configured; set tls, set host to 127.0.0.1, or set disableSsl to permit plain HTTP`,
    );
  }
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${host}:${port}: cannot listen at this address`, {
      cause,
    });
  }
  const address = app.server.address();
  if (address === null || typeof address === 'string') {
    throw new SaltApiError('ERR_HTTP_LISTEN', 'no address');
  }
  return address;
}

/**
 * Limits the resources of HTTP API connections, per address and in total. Connections of minions
 * have the same kinds of limits. The limits apply to the number of connections, the bytes of
 * request bodies, and the TLS handshakes.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, type Readable, Transform } from 'node:stream';
import { Server as SecureServer } from 'node:tls';
import {
  ConnectionGuard,
  type GuardedConnection,
  peerAddress,
  startHandshakesInTurns,
} from '#minion-protocol';
import { intercept, RequestAdmission } from '#runtime';
import { SaltApiError } from './errors.ts';

/** Limits of {@link HttpConnections}. */
export interface HttpConnectionLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Maximum number of bytes in the bodies of requests in progress. */
  readonly bodyBytes: number;
  readonly bodyBytesPerAddress: number;
  /** Time limit for receiving a request, in milliseconds. */
  readonly requestTimeoutMs: number;
}

/** Share of the process's file descriptors that HTTP connections may use. */
const shareOfDescriptors = 1 / 2;
const mostByDefault = 10_000;

/** Time limit for a TLS handshake, including the wait for a turn, in milliseconds. */
const handshakeMs = 20_000;

/**
 * Maximum declared size of a body that is counted as a whole when its request begins, in bytes.
 * Larger bodies, and bodies without a declared size, are counted while they arrive.
 */
const smallBody = 65_536;
/**
 * Number of bytes that are counted for each received piece of a body, in addition to its length.
 */
const costOfChunk = 256;

const sweepMs = 1000;

/**
 * Returns the maximum numbers of connections, in total and per address.
 * @param descriptors - maximum number of open files of the process
 */
export function connectionsOf(
  wanted: { readonly connections?: number; readonly connectionsPerAddress?: number },
  descriptors: number,
): Pick<HttpConnectionLimits, 'connections' | 'connectionsPerAddress'> {
  const { connections: asked = mostByDefault } = wanted;
  const connections = Math.min(asked, Math.floor(descriptors * shareOfDescriptors));
  return {
    connections,
    connectionsPerAddress: wanted.connectionsPerAddress ?? Math.ceil(connections / 2),
  };
}

/** HTTP connections of one server, with the limits for them. */
export class HttpConnections {
  readonly #guard: ConnectionGuard;
  readonly #bySocket = new WeakMap<Duplex, GuardedConnection>();
  readonly #requests = new RequestAdmission();
  readonly #sweeper: NodeJS.Timeout;

  constructor(limits: HttpConnectionLimits) {
    this.#guard = new ConnectionGuard(guardLimits(limits), () => performance.now());
    this.#sweeper = setInterval(() => this.#guard.sweep(), sweepMs).unref();
  }

  /** Returns the number of connections that were ended or rejected, by reason. */
  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  /** Applies the limits to each new connection, before the server processes it. */
  protect(server: Server): void {
    this.#requests.protect(server);
    if (server instanceof SecureServer) {
      startHandshakesInTurns(server, {
        onConnection: (socket) => {
          const guarded = this.#admit(socket);
          return guarded && { guarded, open: (stream) => this.#open(stream, guarded) };
        },
        onRefused: (reason) => this.#guard.count(reason),
      });
      return;
    }
    intercept(server, 'connection', (proceed, socket: Socket) => {
      const guarded = this.#admit(socket);
      if (guarded === undefined) return;
      this.#open(socket, guarded);
      proceed();
    });
  }

  /**
   * Counts a request until it is answered. Returns `false` if the request must not be processed,
   * because its connection has too many unanswered requests. The connection is then ended.
   */
  admitRequest(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#requests.admit(request, response);
  }

  /**
   * Records that a request has arrived completely. The connection is then not evicted until the
   * response to the request ends. Without `response`, as for WebSocket, the connection is never
   * evicted.
   */
  begin(request: IncomingMessage, response?: ServerResponse): void {
    const guarded = this.#of(request.socket);
    if (guarded === undefined) return;
    guarded.requestDone();
    guarded.isBusy = true;
    response?.once('close', () => {
      guarded.isBusy = false;
    });
  }

  /**
   * Counts the bytes of a body until its request is answered.
   * @returns the stream from which to read the body. It fails with ERR_HTTP_BUSY if the body
   * exceeds the limit
   * @throws SaltApiError ERR_HTTP_BUSY
   */
  meter(request: IncomingMessage, response: ServerResponse, body: Readable): Readable {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    const declared = Number(length ?? 0);
    if (declared === 0 && encoding === undefined) return body;
    const guarded = this.#of(request.socket);
    if (guarded === undefined) throw busy();
    const share = new BodyShare(guarded);
    response.once('close', () => share.release());
    if (encoding === undefined && declared <= smallBody) {
      share.take(declared);
      return body;
    }
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        try {
          share.take(chunk.byteLength + costOfChunk);
          done(null, chunk);
        } catch (error) {
          done(error instanceof Error ? error : new Error(String(error)));
        }
      },
    });
    body.on('error', (error) => counted.destroy(error));
    return body.pipe(counted);
  }

  /**
   * Returns the name that identifies the client address of a request in limits.
   * @throws SaltApiError ERR_HTTP_BUSY if the connection of the request has ended
   */
  ownerOf(request: IncomingMessage): string {
    const guarded = this.#of(request.socket);
    if (guarded === undefined) throw busy();
    return guarded.limitKey;
  }

  /** Stops enforcing limits. Open connections are not closed. */
  close(): void {
    clearInterval(this.#sweeper);
  }

  #admit(socket: Socket): GuardedConnection | undefined {
    const address = peerAddress(socket);
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    // The error closes the connection. The event 'close' is handled below.
    socket.on('error', () => {});
    const owner = { onEnd: () => socket.destroy(), finish: () => {} };
    const guarded = this.#guard.admit(address, { awaitsRequest: true, keepsStalled: true }, owner);
    if (guarded === undefined || socket.destroyed) return undefined;
    socket.once('close', () => guarded.end());
    return guarded;
  }

  /**
   * Returns the connection of a socket, or `undefined` if it has ended or is rejected. If the HTTP
   * server of the embedding program has accepted the connection, registers it first.
   */
  #of(socket: Socket): GuardedConnection | undefined {
    const known = this.#bySocket.get(socket);
    if (known !== undefined) return known;
    const guarded = this.#admit(socket);
    if (guarded !== undefined) this.#open(socket, guarded);
    return guarded;
  }

  /** Registers the socket or TLS stream from which the requests of a connection are read. */
  #open(stream: Socket, guarded: GuardedConnection): void {
    guarded.handshakeDone();
    this.#bySocket.set(stream, guarded);
  }
}

/**
 * Counts the bytes of one request's body. They are part of the byte count of the connection, which
 * may have several requests.
 */
class BodyShare {
  readonly #guarded: GuardedConnection;
  #bytes = 0;
  #isReleased = false;

  constructor(guarded: GuardedConnection) {
    this.#guarded = guarded;
  }

  /**
   * Counts further bytes of the request.
   * @throws SaltApiError ERR_HTTP_BUSY
   */
  take(bytes: number): void {
    // After the response, the rest of the body is read and discarded, so it is not counted.
    if (this.#isReleased) return;
    if (!this.#guarded.trySetHeldBytes(this.#guarded.heldBytes + bytes)) throw busy();
    this.#bytes += bytes;
  }

  release(): void {
    this.#isReleased = true;
    this.#guarded.setHeldBytes(this.#guarded.heldBytes - this.#bytes);
  }
}

function busy(): SaltApiError {
  return new SaltApiError(
    'ERR_HTTP_BUSY',
    'too many connections are open, or too much request data is being received; retry later',
  );
}

function guardLimits(limits: HttpConnectionLimits): ConnectionGuard['limits'] {
  // The guard's limits are longer than the server's. The server therefore answers a request that
  // arrives too slowly, before the guard ends its connection.
  const lateMs = limits.requestTimeoutMs + 30_000;
  return {
    handshakeMs,
    firstRequestMs: lateMs,
    messageMs: lateMs,
    stallMs: lateMs,
    unansweredMs: lateMs,
    maxHeldBytes: limits.bodyBytes,
    maxHeldBytesPerAddress: limits.bodyBytesPerAddress,
    maxConnections: limits.connections,
    maxConnectionsPerAddress: limits.connectionsPerAddress,
    maxNewConnectionsPerAddress: limits.connectionsPerAddress,
    maxKnownAddresses: 0,
  };
}

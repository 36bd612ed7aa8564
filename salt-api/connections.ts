/**
 * Limits the resources of HTTP API connections, per address and in total, like those of minion
 * connections: their number, the bytes of their bodies, and the rate of TLS handshakes.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, type Readable, Transform } from 'node:stream';
import { ConnectionGuard, type GuardedConnection, peerAddress } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import { SaltApiError } from './errors.ts';
import { apiLimits } from './limits.ts';

/** Limits of {@link HttpConnections}. */
export interface HttpConnectionLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Bytes of the bodies of requests in progress. */
  readonly bodyBytes: number;
  readonly bodyBytesPerAddress: number;
  /** TLS handshakes of one address per second. 0: no limit. */
  readonly handshakesPerSecond: number;
  /** Time limit for receiving a request, in milliseconds. */
  readonly requestTimeoutMs: number;
}

/** Share of the process's descriptors that HTTP connections may use. The rest is a reserve. */
const shareOfDescriptors = 1 / 2;
const mostByDefault = 10_000;

/** Time limit for a TLS handshake, in milliseconds. */
const handshakeMs = 20_000;
/** Number of addresses that may begin handshakes at the full rate at the same time. */
const handshakeShare = 4;
/** Size of a burst of handshakes, in seconds of the rate. */
const handshakeBurst = 4;
/**
 * Maximum delay of a handshake, in milliseconds. A handshake that would wait longer is rejected.
 */
const maxHandshakeDelayMs = 5000;

/** Size up to which a body counts immediately with its declared length, in bytes. */
const smallBody = 65_536;
/** Overhead of a part of a body, in bytes. */
const costOfChunk = 256;

const sweepMs = 1000;

/**
 * Returns the maximum number of connections.
 * @param descriptors limit of the process
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

/** Connections of one server. */
export class HttpConnections {
  readonly #guard: ConnectionGuard;
  readonly #handshakes: TokenBuckets;
  readonly #allHandshakes: TokenBuckets;
  /** Connections in their handshake, by the only value that both of their sockets report. */
  readonly #inHandshake = new Map<string, GuardedConnection>();
  readonly #bySocket = new WeakMap<Duplex, GuardedConnection>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(limits: HttpConnectionLimits) {
    this.#guard = new ConnectionGuard(guardLimits(limits), () => performance.now());
    const { handshakesPerSecond: perSecond } = limits;
    const rate = (share: number) => ({
      perSecond: perSecond * share,
      burst: Math.max(1, perSecond * share * handshakeBurst),
    });
    this.#handshakes = new TokenBuckets(apiLimits.handshakes, undefined, rate(1));
    this.#allHandshakes = new TokenBuckets(
      apiLimits.allHandshakes,
      undefined,
      rate(handshakeShare),
    );
    this.#sweeper = setInterval(() => this.#guard.sweep(), sweepMs).unref();
  }

  /** Returns the numbers of ended or rejected connections, by reason. */
  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  /** Inserts the limits before the server's own handling of new connections. */
  protect(server: Server, isSecure: boolean): void {
    const accept = server.listeners('connection');
    const proceed = (socket: Socket): void => {
      for (const listener of accept) listener.call(server, socket);
    };
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      const guarded = this.#admit(socket);
      if (guarded === undefined) return;
      if (isSecure) this.#beginHandshake(socket, guarded, proceed);
      else {
        guarded.handshakeDone();
        proceed(socket);
      }
    });
    if (!isSecure) return;
    server.on('secureConnection', (stream: Socket) => {
      const guarded = this.#inHandshake.get(remoteOf(stream));
      if (guarded === undefined) return;
      guarded.handshakeDone();
      this.#bySocket.set(stream, guarded);
    });
  }

  /** Marks a request as received. While it is in progress, its connection is not evicted. */
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
   * Counts a body until its request is answered.
   * @returns the stream to read the body from
   * @throws SaltApiError ERR_HTTP_BUSY; the returned stream may fail with it as well
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
   * Returns the owner whose limits apply to a request.
   * @throws SaltApiError ERR_HTTP_BUSY if its connection has ended
   */
  ownerOf(request: IncomingMessage): string {
    const guarded = this.#of(request.socket);
    if (guarded === undefined) throw busy();
    return guarded.limitKey;
  }

  /** Stops enforcing the limits. */
  close(): void {
    clearInterval(this.#sweeper);
  }

  #admit(socket: Socket): GuardedConnection | undefined {
    const address = peerAddress(socket);
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    // An error closes the connection, and 'close' reports it.
    socket.on('error', () => {});
    const owner = { onEnd: () => socket.destroy(), finish: () => {} };
    const guarded = this.#guard.admit(address, { awaitsRequest: true, keepsStalled: true }, owner);
    if (guarded === undefined || socket.destroyed) return undefined;
    socket.once('close', () => guarded.end());
    this.#bySocket.set(socket, guarded);
    return guarded;
  }

  /**
   * Returns the connection of a request, even if another server accepted it, or `undefined` if it
   * has ended.
   */
  #of(socket: Socket): GuardedConnection | undefined {
    const known = this.#bySocket.get(socket);
    if (known !== undefined) return known;
    const guarded = this.#admit(socket);
    guarded?.handshakeDone();
    return guarded;
  }

  #beginHandshake(
    socket: Socket,
    guarded: GuardedConnection,
    proceed: (socket: Socket) => void,
  ): void {
    const own = this.#handshakes.take(guarded.limitKey, 0);
    const all = this.#allHandshakes.take('', 0);
    if (Math.max(own, all) > maxHandshakeDelayMs) {
      guarded.refuse('too-many-handshakes');
      return;
    }
    const delay = Math.max(this.#handshakes.take(guarded.limitKey), this.#allHandshakes.take(''));
    const remote = remoteOf(socket);
    this.#inHandshake.set(remote, guarded);
    socket.once('close', () => this.#inHandshake.delete(remote));
    if (delay === 0) proceed(socket);
    else setTimeout(() => socket.destroyed || proceed(socket), delay).unref();
  }
}

/** Bytes of its connection that a request holds. A connection may have several requests. */
class BodyShare {
  readonly #guarded: GuardedConnection;
  #bytes = 0;
  #isReleased = false;

  constructor(guarded: GuardedConnection) {
    this.#guarded = guarded;
  }

  /**
   * Adds bytes.
   * @throws SaltApiError ERR_HTTP_BUSY
   */
  take(bytes: number): void {
    // Data after the response is read and discarded.
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
    'too many connections, or bytes of bodies, are in use: retry later',
  );
}

function guardLimits(limits: HttpConnectionLimits): ConnectionGuard['limits'] {
  // The server answers late requests before the guard ends their connection.
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

function remoteOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * Bounds what connections of the HTTP API cost, of one address and in all, as on the minions' ports:
 * how many there are, the bytes of bodies that they hold, and how often they begin TLS.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, type Readable, Transform } from 'node:stream';
import { ConnectionGuard, type GuardedConnection, peerAddress } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import { SaltApiError } from './errors.ts';

/** Bounds of {@link HttpConnections}. */
export interface HttpConnectionLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Bodies of requests that are not answered yet. */
  readonly bodyBytes: number;
  readonly bodyBytesPerAddress: number;
  /** TLS handshakes of one address, a second; 0: without limit. */
  readonly handshakesPerSecond: number;
  /** Milliseconds that a request may take to arrive. */
  readonly requestTimeoutMs: number;
}

/** What of the process's descriptors connections of the HTTP API may have: the rest is a reserve. */
const shareOfDescriptors = 1 / 2;
const mostByDefault = 10_000;

/** Milliseconds to the end of a TLS handshake. */
const handshakeMs = 20_000;
/** Addresses that may do so at the full rate at the same time. */
const handshakeShare = 4;
/** Seconds of the rate that may come at once. */
const handshakeBurst = 4;
/** Milliseconds that a handshake is put off; beyond that it is refused. */
const maxHandshakeDelayMs = 5000;

/** Bodies of this size count by what their head says, at once. */
const smallBody = 65_536;
/** What a part of a body costs beside its bytes. */
const costOfChunk = 256;

const sweepMs = 1000;

/** How many connections there may be. @param descriptors that the process may have */
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
  /** By the one thing that both sockets of a connection tell. */
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
    this.#handshakes = new TokenBuckets(rate(1));
    this.#allHandshakes = new TokenBuckets(rate(handshakeShare));
    this.#sweeper = setInterval(() => this.#guard.sweep(), sweepMs).unref();
  }

  /** Connections that were ended or not taken in, by reason. */
  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  /** Puts itself before what a server does with a new connection. */
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

  /** A request has arrived and is worked on: its connection is not ended for another one. */
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
   * @returns what the body is read from
   * @throws SaltApiError ERR_HTTP_BUSY, also from what it returns
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
   * With whom a request shares what one address may have.
   * @throws SaltApiError ERR_HTTP_BUSY where its connection has ended
   */
  ownerOf(request: IncomingMessage): string {
    const guarded = this.#of(request.socket);
    if (guarded === undefined) throw busy();
    return guarded.limitKey;
  }

  /** Nothing is looked at any more. */
  close(): void {
    clearInterval(this.#sweeper);
  }

  #admit(socket: Socket): GuardedConnection | undefined {
    const address = peerAddress(socket);
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    // What goes wrong ends it, which 'close' tells.
    socket.on('error', () => {});
    const owner = { onEnd: () => socket.destroy(), finish: () => {} };
    const guarded = this.#guard.admit(address, { awaitsRequest: true, keepsStalled: true }, owner);
    if (guarded === undefined || socket.destroyed) return undefined;
    socket.once('close', () => guarded.end());
    this.#bySocket.set(socket, guarded);
    return guarded;
  }

  /** The connection of a request, also where another server took it in; `undefined`: it has ended. */
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

/** What a request holds of its connection's bytes; there may be several of one connection. */
class BodyShare {
  readonly #guarded: GuardedConnection;
  #bytes = 0;
  #isReleased = false;

  constructor(guarded: GuardedConnection) {
    this.#guarded = guarded;
  }

  /** @throws SaltApiError ERR_HTTP_BUSY */
  take(bytes: number): void {
    // What comes after the answer is read and forgotten.
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
  return new SaltApiError('ERR_HTTP_BUSY', 'too many connections, or bytes of bodies, are held');
}

function guardLimits(limits: HttpConnectionLimits): ConnectionGuard['limits'] {
  // Late requests get an answer of the server's before the guard ends their connection.
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

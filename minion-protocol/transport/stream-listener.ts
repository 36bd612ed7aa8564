/**
 * A transport over TCP: binds the request port and the publish port, admits connections and
 * enforces their deadlines.
 */

import type { Socket } from 'node:net';
import { Budget, type FileReloader } from '#runtime';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import {
  ConnectionGuard,
  type ConnectionOwner,
  type GuardedConnection,
  type GuardLimits,
  type PortRules,
  peerAddress,
} from './connection-guard.ts';
import { HandshakeTurns } from './handshake-turns.ts';
import { transportLimits } from './limits.ts';
import { createListenerTurns } from './listener-turns.ts';
import { type BoundServer, type ListenOptions, listenOn } from './listening.ts';
import { RelayedConnections, type RelayPortsOptions } from './relayed-connections.ts';
import type { RequestService } from './request-queue.ts';
import {
  Connection,
  type OpenConnection,
  type StreamProtocol,
  type StreamSession,
} from './stream-connection.ts';
import { type LoadedTls, listenSecurely, loadTls, renewTls, type TlsOptions } from './tls.ts';
import type { AdmittedConnection } from './tls-handshakes.ts';
import {
  type AnnouncementHandler,
  type BoundPorts,
  type MasterTransport,
  type OutgoingPublication,
  type PublishOutcome,
  type RequestHandler,
  type SubscriberInfo,
  TransportError,
} from './transport.ts';
import { type ListenerDeps, WriteScheduler } from './write-queue.ts';

/** Protocol of one port. */
export interface PortProtocol extends PortRules {
  /**
   * Whether the protocol has its own handshake. If so, the protocol calls
   * {@link GuardedConnection.handshakeDone} at the end of the handshake.
   */
  readonly hasHandshake: boolean;
  readonly open: (
    stream: Socket,
    guarded: GuardedConnection,
    parts: ListenerDeps,
  ) => OpenConnection;
}

/**
 * Returns the definition of a port. On this port, each accepted socket gets a {@link Connection}
 * that uses `protocol`.
 */
export function createPortProtocol<
  Event extends { readonly type: string },
  Session extends StreamSession,
>(properties: Omit<PortProtocol, 'open'>, protocol: StreamProtocol<Event, Session>): PortProtocol {
  return {
    ...properties,
    open: (stream, guarded, parts) => new Connection(stream, guarded, parts, protocol),
  };
}

/**
 * An accepted socket, which counts towards the limits of connections. With TLS, the protocol of the
 * port starts only after the TLS handshake.
 */
class GuardedSocket implements ConnectionOwner {
  readonly #socket: Socket;
  #connection: OpenConnection | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /**
   * Starts the port's protocol.
   * @param stream - the socket, or its decrypted TLS stream
   */
  open(port: PortProtocol, stream: Socket, guarded: GuardedConnection, parts: ListenerDeps): void {
    if (!port.hasHandshake) guarded.handshakeDone();
    this.#connection = port.open(stream, guarded, parts);
  }

  onEnd(): void {
    this.#socket.destroy();
    this.#connection?.onClosed();
  }

  finish(): void {
    if (this.#connection === undefined) this.#socket.destroy();
    else this.#connection.finish();
  }
}

/** Limits for the peers of a listener, for any transport [THREATS N-02, N-03]. */
export interface ConnectionLimits extends GuardLimits {
  /** Maximum size of a request, all its frames together, in bytes. Default: 16 MiB. */
  readonly maxMessageBytes: number;
  /**
   * Maximum number of requests of one connection in progress. Reading stops at the limit. Default:
   * 64.
   */
  readonly maxRequestsInFlight: number;
  /**
   * Maximum number of requests in progress, for all connections together. Waiting requests do not
   * count. Reading stops at the limit. Default: 256. The limit is not higher, because each request
   * in progress takes memory that every garbage collection must scan. A higher limit was also not
   * faster.
   */
  readonly maxActiveRequests: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  handshakeMs: 30_000,
  firstRequestMs: 30_000,
  messageMs: 30_000,
  stallMs: 60_000,
  unansweredMs: 5_000,
  maxMessageBytes: 16 * 1024 * 1024,
  maxHeldBytes: 128 * 1024 * 1024,
  maxHeldBytesPerAddress: 32 * 1024 * 1024,
  maxConnections: 65_536,
  maxConnectionsPerAddress: 65_536,
  maxNewConnectionsPerAddress: 1000,
  maxKnownAddresses: 65_536,
  maxRequestsInFlight: 64,
  maxActiveRequests: 256,
};

const DEFAULT_GRACE_MS = 5000;

/** Options of every listener over TCP ports. */
export interface ListenerOptions {
  /** Address to bind (Salt's `interface`). Default: `0.0.0.0`. */
  readonly host?: string;
  /** Request port (Salt's `ret_port`). 0 selects a free port. Default: 4506. */
  readonly requestPort?: number;
  /** Publish port (Salt's `publish_port`). 0 selects a free port. Default: 4505. */
  readonly publishPort?: number;
  /**
   * Maximum number of connections that wait to be accepted (Salt's `zmq_backlog`). Default: 1,000.
   */
  readonly backlog?: number;
  /**
   * Idle time before the first keep-alive probe, in milliseconds (Salt's `tcp_keepalive_idle`). 0
   * uses the system's default; `null` disables keep-alive. Default: 300,000.
   */
  readonly keepAliveIdleMs?: number | null;
  readonly limits?: Partial<ConnectionLimits>;
  /** Ports for relays. Not available with TLS. Default: none. */
  readonly relay?: RelayPortsOptions;
  /** Interval between checks of the deadlines, in milliseconds. Default: 1,000. */
  readonly sweepIntervalMs?: number;
  /**
   * Returns the current time, in milliseconds since 1970. The time must never go back. Default: the
   * clock of the process.
   */
  readonly now?: () => number;
}

/**
 * Description of a transport for its listener: the name of the transport, and the protocols of its
 * two ports.
 */
export interface ListenerDesign {
  /** Salt's name of the transport. */
  readonly name: string;
  readonly requests: (service: RequestService, limits: ConnectionLimits) => PortProtocol;
  /**
   * Creates the publish port's protocol. If absent, the listener has only a request port.
   * @param announce - verifies the identity that a minion claims on its publish connection
   */
  readonly publications?: (
    announce: AnnouncementHandler,
    publishPort: () => number,
    /**
     * Interval between keep-alive messages to a subscriber (PING, not a publication), in
     * milliseconds. Default: no such messages.
     */
    pingMs?: number,
  ) => PortProtocol;
  readonly publisher: {
    publish(publication: OutgoingPublication): PublishOutcome;
    subscribers(): readonly SubscriberInfo[];
    /**
     * Ends subscriptions of this minion that only the publisher can recognise, for example by their
     * topic.
     */
    disconnect?(minionId: string): void;
  };
}

/** Creates a listener. Call {@link MasterTransport.listen} to bind its ports. */
export function createListener(
  design: ListenerDesign,
  options: ListenerOptions,
  tls?: TlsOptions,
): MasterTransport {
  return new StreamListener(design, options, tls);
}

class StreamListener implements MasterTransport {
  readonly name: string;
  readonly #design: ListenerDesign;
  readonly #options: ListenerOptions;
  readonly #tls: TlsOptions | undefined;
  readonly #limits: ConnectionLimits;
  readonly #guard: ConnectionGuard;
  readonly #parts: ListenerDeps;
  readonly #handshakes = new HandshakeTurns();
  #servers: BoundServer[] = [];
  #publishPort = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #certificate: FileReloader | undefined;
  #relayed: RelayedConnections | undefined;
  #closing: Promise<void> | undefined;

  constructor(design: ListenerDesign, options: ListenerOptions, tls: TlsOptions | undefined) {
    this.name = design.name;
    this.#design = design;
    this.#options = options;
    this.#tls = tls;
    this.#limits = { ...DEFAULT_CONNECTION_LIMITS, ...options.limits };
    this.#guard = new ConnectionGuard(this.#limits, options.now ?? steadyClock);
    this.#parts = {
      now: this.#guard.now,
      writeScheduler: new WriteScheduler(),
      turns: createListenerTurns(),
    };
  }

  async listen(
    handler: RequestHandler,
    announce: AnnouncementHandler = async () => {},
  ): Promise<BoundPorts> {
    if (this.#closing !== undefined || this.#servers.length > 0) {
      throw new TransportError(
        'ERR_CLOSED',
        'listen() was called twice or after close(); create a new transport',
      );
    }
    try {
      return await this.#bindBoth(handler, announce);
    } catch (error) {
      await this.close(0);
      throw error;
    }
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    return this.#design.publisher.publish(publication);
  }

  disconnect(minionId: string): void {
    this.#guard.disconnect(minionId);
    this.#design.publisher.disconnect?.(minionId);
  }

  subscribers(): readonly SubscriberInfo[] {
    return this.#design.publisher.subscribers();
  }

  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  async renewCertificate(): Promise<readonly string[]> {
    const isRenewed = await this.#certificate?.check();
    return isRenewed && this.#tls !== undefined ? [this.#tls.certFile] : [];
  }

  close(graceMs: number = DEFAULT_GRACE_MS): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  /**
   * Binds the publish port, then the request port. Replies to sign-ins contain the number of the
   * publish port, so it must be known before the first request.
   */
  async #bindBoth(handler: RequestHandler, announce: AnnouncementHandler): Promise<BoundPorts> {
    const { requestPort = 4506, publishPort = 4505 } = this.#options;
    const limits = this.#limits;
    const knownPort = (): number => this.#publishPort;
    const tls = this.#tls === undefined ? undefined : loadTls(this.#tls);
    const publications = this.#design.publications?.(announce, knownPort);
    if (publications !== undefined) {
      this.#publishPort = (await this.#bind(publishPort, publications, tls)).port;
    }
    const service: RequestService = {
      handler,
      transport: this.name,
      publishPort: knownPort,
      maxInFlight: limits.maxRequestsInFlight,
      maxBytesInFlight: limits.maxMessageBytes,
      limiter: new ConcurrencyLimiter(transportLimits.activeRequests, limits.maxActiveRequests),
      unread: new Budget(transportLimits.unreadReplies),
    };
    const answers = this.#design.requests(service, limits);
    const requests = await this.#bind(requestPort, answers, tls);
    const relay = await this.#bindRelay(answers, announce);
    if (tls !== undefined) this.#certificate = renewTls(tls, this.#servers);
    this.#sweeper = setInterval(() => this.#guard.sweep(), this.#options.sweepIntervalMs ?? 1000);
    this.#sweeper.unref();
    const own = { requestPort: requests.port, publishPort: this.#publishPort };
    return relay === undefined ? own : { ...own, relay };
  }

  async #bindRelay(
    requests: PortProtocol,
    announce: AnnouncementHandler,
  ): Promise<BoundPorts['relay']> {
    const { relay } = this.#options;
    if (relay === undefined) return undefined;
    const { pingMs = 15_000 } = relay;
    const publications = this.#design.publications?.(announce, () => this.#publishPort, pingMs);
    if (publications === undefined) return undefined;
    if (this.#tls !== undefined) {
      throw new TransportError(
        'ERR_TLS',
        'relay ports cannot be used with TLS; remove the relay or the ssl option',
      );
    }
    const relayed = new RelayedConnections(relay, (reason) => this.#guard.count(reason));
    this.#relayed = relayed;
    const bind = async (port: number, kind: PortProtocol): Promise<number> => {
      const bound = await listenOn(this.#addressOf(port, relay.host), (socket) =>
        relayed.take(socket, (address) => this.#admit(socket, kind, address)?.open(socket)),
      );
      this.#servers.push(bound);
      return bound.port;
    };
    const publishPort = await bind(relay.publishPort, publications);
    return { publishPort, requestPort: await bind(relay.requestPort, requests) };
  }

  #addressOf(port: number, host: string | undefined): ListenOptions {
    const { host: own = '0.0.0.0', backlog = 1000, keepAliveIdleMs = 300_000 } = this.#options;
    return { host: host ?? own, port, backlog, keepAliveIdleMs };
  }

  async #bind(port: number, kind: PortProtocol, tls: LoadedTls | undefined): Promise<BoundServer> {
    const address = this.#addressOf(port, this.#options.host);
    const bound =
      tls === undefined
        ? await listenOn(address, (socket) => this.#admit(socket, kind)?.open(socket))
        : await listenSecurely(address, tls, {
            turns: this.#handshakes,
            onConnection: (socket) => this.#admit(socket, kind),
            onRefused: (reason) => this.#guard.count(reason),
          });
    this.#servers.push(bound);
    return bound;
  }

  /**
   * Admits a connection.
   * @param address - address to record; default: the remote address
   * @returns `undefined` if the connection was rejected and has ended
   */
  #admit(
    socket: Socket,
    port: PortProtocol,
    address: string | undefined = peerAddress(socket),
  ): AdmittedConnection | undefined {
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    const admitted = new GuardedSocket(socket);
    const guarded = this.#guard.admit(address, port, admitted);
    if (guarded === undefined) return undefined;
    endGuardedWithSocket(socket, guarded);
    return {
      guarded,
      open: (stream) => {
        if (stream !== socket) endGuardedWithSocket(stream, guarded);
        admitted.open(port, stream, guarded, this.#parts);
      },
    };
  }

  async #close(graceMs: number): Promise<void> {
    const closed = this.#servers.map(closeServer);
    this.#relayed?.close();
    this.#guard.finishAll();
    const grace = setTimeout(() => this.#guard.endAll(), graceMs);
    await Promise.all(closed);
    clearTimeout(grace);
    clearInterval(this.#sweeper);
    this.#certificate?.stop();
    this.#guard.endAll();
  }
}

/**
 * Ends the guarded connection when its socket closes. Errors of the socket, such as a reset by the
 * peer, are not logged. The socket emits 'close' after an error, and this event ends the
 * connection.
 */
function endGuardedWithSocket(socket: Socket, guarded: GuardedConnection): void {
  socket.on('error', ignore);
  socket.on('close', () => guarded.end());
}

function ignore(): void {
  // The 'close' event ends the connection.
}

/** Resolves when the port is free and the last connection has ended. */
function closeServer({ server }: BoundServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

function steadyClock(): number {
  return performance.timeOrigin + performance.now();
}

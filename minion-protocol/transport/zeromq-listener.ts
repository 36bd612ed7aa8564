/** The master's end over ZeroMQ: ROUTER and PUB, spoken by `zmtp.ts` over `node:net`. */
import type { Server, Socket } from 'node:net';
import { DEFAULT_ZMTP_LIMITS } from '../zmtp.ts';
import { ConnectionGuard } from './connection-guard.ts';
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from './connection-limits.ts';
import { TransportError } from './errors.ts';
import { type BoundServer, listenOn, peerAddress } from './listening.ts';
import type {
  BoundPorts,
  MasterTransport,
  OutgoingPublication,
  PublishOutcome,
  RequestHandler,
  Subscriber,
} from './transport.ts';
import { ZeromqConnection, type ZeromqConnectionOptions } from './zeromq-connection.ts';
import { DEFAULT_PUBLISHER_OPTIONS, Publisher, type PublisherOptions } from './zeromq-publisher.ts';
import { RequestSession } from './zeromq-router.ts';

const DEFAULT_GRACE_MS = 5000;

/** What {@link createZeromqListener} needs to know; everything has a default. */
export interface ZeromqListenerOptions extends Partial<PublisherOptions> {
  /** Address to bind, Salt's `interface`. Default `0.0.0.0`. */
  readonly host?: string;
  /** Salt's `ret_port`; 0: any free one. Default 4506. */
  readonly requestPort?: number;
  /** Salt's `publish_port`; 0: any free one. Default 4505. */
  readonly publishPort?: number;
  /** Salt's `zmq_backlog`: connections that wait to be accepted. Default 1000. */
  readonly backlog?: number;
  /**
   * Salt's `tcp_keepalive_idle` in milliseconds; 0: the system's; `null`: no keep-alive. Default
   * 300,000.
   */
  readonly keepAliveIdleMs?: number | null;
  readonly limits?: Partial<ConnectionLimits>;
  /** How often deadlines are looked at, milliseconds. Default 1000. */
  readonly sweepIntervalMs?: number;
  /** Milliseconds since 1970, never going back. Default: the process's own clock. */
  readonly now?: () => number;
}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createZeromqListener(options: ZeromqListenerOptions = {}): MasterTransport {
  return new ZeromqListener(options);
}

class ZeromqListener implements MasterTransport {
  readonly name = 'zeromq';
  readonly #options: ZeromqListenerOptions;
  readonly #guard: ConnectionGuard;
  readonly #publisher: Publisher;
  readonly #publisherOptions: PublisherOptions;
  readonly #connections = new Set<ZeromqConnection>();
  #servers: Server[] = [];
  #sweeper: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ZeromqListenerOptions) {
    this.#options = options;
    this.#guard = new ConnectionGuard(
      { ...DEFAULT_CONNECTION_LIMITS, ...options.limits },
      options.now ?? steadyClock,
    );
    this.#publisherOptions = { ...DEFAULT_PUBLISHER_OPTIONS, ...options };
    this.#publisher = new Publisher(this.#publisherOptions);
  }

  async listen(handler: RequestHandler): Promise<BoundPorts> {
    if (this.#closing !== undefined || this.#servers.length > 0) {
      throw new TransportError('ERR_CLOSED', 'a listener listens once');
    }
    const requests = await this.#bind(this.#options.requestPort ?? 4506, this.#router(handler));
    const publications = await this.#bind(this.#options.publishPort ?? 4505, this.#pub()).catch(
      async (error: unknown) => {
        await this.close(0);
        throw error;
      },
    );
    this.#sweeper = setInterval(() => this.#guard.sweep(), this.#options.sweepIntervalMs ?? 1000);
    this.#sweeper.unref();
    return { requestPort: requests.port, publishPort: publications.port };
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    return this.#publisher.publish(publication);
  }

  disconnect(minionId: string): void {
    this.#guard.disconnect(minionId);
    this.#publisher.disconnect(minionId);
  }

  subscribers(): readonly Subscriber[] {
    return this.#publisher.subscribers();
  }

  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  close(graceMs: number = DEFAULT_GRACE_MS): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  #router(handler: RequestHandler): ConnectionKind {
    const { maxMessageBytes, maxRequestsInFlight } = this.#guard.limits;
    return {
      role: 'ROUTER',
      limits: { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes },
      openSession: (connection) =>
        new RequestSession(connection, {
          handler,
          maxInFlight: maxRequestsInFlight,
          maxBytesInFlight: maxMessageBytes,
        }),
    };
  }

  #pub(): ConnectionKind {
    const { maxTopicBytes } = this.#publisherOptions;
    return {
      role: 'PUB',
      // A peer of PUB has nothing to say but subscriptions: one byte and the topic.
      limits: { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1 + maxTopicBytes, maxTopicBytes },
      openSession: (connection) => this.#publisher.openSession(connection),
    };
  }

  async #bind(port: number, kind: ConnectionKind): Promise<BoundServer> {
    const { keepAliveIdleMs = 300_000 } = this.#options;
    const bound = await listenOn(
      {
        host: this.#options.host ?? '0.0.0.0',
        port,
        backlog: this.#options.backlog ?? 1000,
        keepAliveIdleMs,
      },
      (socket) => this.#accept(socket, kind),
    );
    this.#servers.push(bound.server);
    return bound;
  }

  #accept(socket: Socket, kind: ConnectionKind): void {
    const address = peerAddress(socket);
    if (address === undefined) {
      socket.destroy();
      return;
    }
    let connection: ZeromqConnection | undefined;
    const guarded = this.#guard.admit({
      address,
      awaitsRequest: kind.role === 'ROUTER',
      onEnd: () => {
        socket.destroy();
        if (connection === undefined) return;
        connection.session.onClosed();
        this.#connections.delete(connection);
      },
    });
    if (guarded === undefined) return;
    connection = new ZeromqConnection(socket, guarded, { ...kind, guard: this.#guard });
    this.#connections.add(connection);
  }

  async #close(graceMs: number): Promise<void> {
    const closed = this.#servers.map(closeServer);
    for (const connection of this.#connections) connection.session.finish();
    const grace = setTimeout(() => this.#endConnections(), graceMs);
    await Promise.all(closed);
    clearTimeout(grace);
    clearInterval(this.#sweeper);
    this.#endConnections();
  }

  #endConnections(): void {
    for (const connection of this.#connections) connection.guarded.end();
  }
}

type ConnectionKind = Omit<ZeromqConnectionOptions, 'guard'>;

/** Resolves when the port is free and the last connection is gone. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

function steadyClock(): number {
  return performance.timeOrigin + performance.now();
}

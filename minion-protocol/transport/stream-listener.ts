/** A transport over TCP ports: binds both, admits connections, keeps deadlines, closes. */
import type { Socket } from 'node:net';
import {
  ConcurrencyLimiter,
  ConnectionGuard,
  type GuardedConnection,
  peerAddress,
  type RenewedFiles,
} from '../../runtime/index.ts';
import { AdmittedSocket, type Port } from './admitted-socket.ts';
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from './connection-limits.ts';
import { TransportError } from './errors.ts';
import { type BoundServer, listenOn } from './listening.ts';
import type { RequestService } from './request-queue.ts';
import { type LoadedTls, listenSecurely, loadTls, renewTls, type TlsOptions } from './tls.ts';
import type {
  AnnouncementHandler,
  BoundPorts,
  MasterTransport,
  OutgoingPublication,
  PublishOutcome,
  RequestHandler,
  Subscriber,
} from './transport.ts';
import type { ListenerParts } from './write-queue.ts';
import { WriteRounds } from './write-rounds.ts';

const DEFAULT_GRACE_MS = 5000;

/** What every listener over TCP ports needs to know; everything has a default. */
export interface ListenerOptions {
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

/** What makes a transport out of a listener. */
export interface ListenerDesign {
  /** Salt's name of the transport. */
  readonly name: string;
  readonly requests: (service: RequestService, limits: ConnectionLimits) => Port;
  /** @param announce verifies what a minion says of itself on its publish connection */
  readonly publications: (announce: AnnouncementHandler, publishPort: () => number) => Port;
  readonly publisher: {
    publish(publication: OutgoingPublication): PublishOutcome;
    subscribers(): readonly Subscriber[];
    /** Ends what the publisher alone knows to be this minion's. */
    disconnect?(minionId: string): void;
  };
}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
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
  readonly #parts: ListenerParts;
  #servers: BoundServer[] = [];
  #publishPort = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #certificate: RenewedFiles | undefined;
  #closing: Promise<void> | undefined;

  constructor(design: ListenerDesign, options: ListenerOptions, tls: TlsOptions | undefined) {
    this.name = design.name;
    this.#design = design;
    this.#options = options;
    this.#tls = tls;
    this.#limits = { ...DEFAULT_CONNECTION_LIMITS, ...options.limits };
    this.#guard = new ConnectionGuard(this.#limits, options.now ?? steadyClock);
    this.#parts = { now: this.#guard.now, rounds: new WriteRounds() };
  }

  async listen(
    handler: RequestHandler,
    announce: AnnouncementHandler = async () => {},
  ): Promise<BoundPorts> {
    if (this.#closing !== undefined || this.#servers.length > 0) {
      throw new TransportError('ERR_CLOSED', 'a listener listens once');
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

  subscribers(): readonly Subscriber[] {
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

  /** The publish port first: an answer on the other one may have to name it. */
  async #bindBoth(handler: RequestHandler, announce: AnnouncementHandler): Promise<BoundPorts> {
    const { requestPort = 4506, publishPort = 4505 } = this.#options;
    const limits = this.#limits;
    const knownPort = (): number => this.#publishPort;
    const tls = this.#tls === undefined ? undefined : loadTls(this.#tls);
    const publications = this.#design.publications(announce, knownPort);
    this.#publishPort = (await this.#bind(publishPort, publications, tls)).port;
    const service: RequestService = {
      handler,
      transport: this.name,
      publishPort: knownPort,
      maxInFlight: limits.maxRequestsInFlight,
      maxBytesInFlight: limits.maxMessageBytes,
      turns: new ConcurrencyLimiter(limits.maxTurns),
    };
    const requests = await this.#bind(requestPort, this.#design.requests(service, limits), tls);
    if (tls !== undefined) this.#certificate = renewTls(tls, this.#servers);
    this.#sweeper = setInterval(() => this.#guard.sweep(), this.#options.sweepIntervalMs ?? 1000);
    this.#sweeper.unref();
    return { requestPort: requests.port, publishPort: this.#publishPort };
  }

  async #bind(port: number, kind: Port, tls: LoadedTls | undefined): Promise<BoundServer> {
    const { keepAliveIdleMs = 300_000 } = this.#options;
    const address = {
      host: this.#options.host ?? '0.0.0.0',
      port,
      backlog: this.#options.backlog ?? 1000,
      keepAliveIdleMs,
    };
    const bound =
      tls === undefined
        ? await listenOn(address, (socket) => this.#admit(socket, kind)?.(socket))
        : await listenSecurely(address, tls, {
            onConnection: (socket) => this.#admit(socket, kind),
            onRefused: (reason) => this.#guard.count(reason),
          });
    this.#servers.push(bound);
    return bound;
  }

  /**
   * Takes a connection in.
   * @returns what is to be called once bytes of the protocol can be exchanged; `undefined` when
   *   the connection was refused and has ended
   */
  #admit(socket: Socket, port: Port): ((stream: Socket) => void) | undefined {
    const address = peerAddress(socket);
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    const admitted = new AdmittedSocket(socket);
    const guarded = this.#guard.admit(address, port, admitted);
    if (guarded === undefined) return undefined;
    endWith(socket, guarded);
    return (stream) => {
      if (stream !== socket) endWith(stream, guarded);
      admitted.open(port, stream, guarded, this.#parts);
    };
  }

  async #close(graceMs: number): Promise<void> {
    const closed = this.#servers.map(closeServer);
    this.#guard.finishAll();
    const grace = setTimeout(() => this.#guard.endAll(), graceMs);
    await Promise.all(closed);
    clearTimeout(grace);
    clearInterval(this.#sweeper);
    this.#certificate?.stop();
    this.#guard.endAll();
  }
}

/** What ends a connection from outside. A reset is an ordinary way to go; 'close' follows. */
function endWith(socket: Socket, guarded: GuardedConnection): void {
  socket.on('error', ignore);
  socket.on('close', () => guarded.end());
}

function ignore(): void {
  // Told by 'close'.
}

/** Resolves when the port is free and the last connection is gone. */
function closeServer({ server }: BoundServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

function steadyClock(): number {
  return performance.timeOrigin + performance.now();
}

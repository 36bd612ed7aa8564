/**
 * A relay of Salt's two ports, between networks and the master. A network's proxy says network and
 * address of each connection, or the relay listens in the network itself; it adds whose they are,
 * and bounds what each may have.
 */

import { rm } from 'node:fs/promises';
import net, { type Socket } from 'node:net';
import type { Logger } from 'pino';
import { awaitProxyHeader, encodeProxyHeader } from '#minion-protocol';
import { listenPrivately, RecentAnswers, RepeatedWarnings } from '#runtime';
import type { AgentInstance } from './agent-credentials.ts';
import type { FindInstance, FindNetworks } from './metadata-agent.ts';
import {
  type AgentNetwork,
  ConnectionCounts,
  type ConnectionOrigin,
  listenInNetwork,
} from './network-listeners.ts';

/** One of the two ports. */
interface RelayedPort {
  /** Path of the Unix socket that proxies connect to, with a PROXY header. Default: none. */
  readonly socket?: string | undefined;
  /** Port in networks where the relay listens itself. */
  readonly guestPort?: number;
  /** Of the master's ports for relays. */
  readonly port: number;
}

export interface RelayOptions {
  /** Where the master listens for relays. */
  readonly host: string;
  readonly ports: readonly RelayedPort[];
  /** Where it listens itself. Default: nowhere. */
  readonly networks?: readonly AgentNetwork[] | undefined;
  /** The most connections of one network. Default 1,000. */
  readonly connectionsPerNetwork?: number | undefined;
  /** The most connections of one instance. Default 32. */
  readonly connectionsPerInstance?: number | undefined;
}

export interface RelayDeps {
  readonly find: FindInstance;
  /** Default: no router is known. */
  readonly networksOf?: FindNetworks | undefined;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** A running relay. */
export interface Relay {
  close(): Promise<void>;
}

interface Refusal {
  readonly reason: string;
  readonly network?: string;
  readonly address?: string;
}

const headerMs = 5000;
/** Silence before the first probe, so that a way whose other end is gone ends. */
const keepAliveMs = 60_000;
/**
 * A minion makes a connection for each request; an address may have another owner so much later.
 * `nobody` holds as long.
 */
const foundForMs = 5000;
const maxFound = 4096;
/** The proxy's own address is of no use to the master. */
const nowhere = '0.0.0.0';

/** Starts one. @throws the system's error */
export async function startRelay(options: RelayOptions, deps: RelayDeps): Promise<Relay> {
  const relay = new ByteRelay(options, deps);
  try {
    for (const port of options.ports) await relay.listen(port);
  } catch (error) {
    await relay.close();
    throw error;
  }
  return relay;
}

class ByteRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #deps: RelayDeps;
  readonly #warnings: RepeatedWarnings;
  readonly #servers: net.Server[] = [];
  readonly #sockets = new Set<Socket>();
  /** Connections by network and by instance. */
  readonly #counts = new ConnectionCounts();
  /** Whose addresses are, as of a moment ago. */
  readonly #found = new RecentAnswers<AgentInstance | undefined>({
    maxAgeMs: foundForMs,
    maxAnswers: maxFound,
    monotonic: () => performance.now(),
  });

  constructor(options: RelayOptions, deps: RelayDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#warnings = new RepeatedWarnings(deps.log);
  }

  /** Whoever can connect can say which network it is. */
  async listen({ socket: path, guestPort, port }: RelayedPort): Promise<void> {
    if (path !== undefined) {
      const server = net.createServer((socket) => this.#take(socket, port));
      this.#servers.push(server);
      await listenPrivately(server, path);
    }
    const networks = guestPort === undefined ? [] : (this.#options.networks ?? []);
    for (const network of networks) {
      const opened = await listenInNetwork(network, guestPort ?? port, (socket, origin) => {
        this.#keep(socket);
        this.#passOn(socket, origin, port);
      });
      this.#servers.push(...opened);
    }
    this.#deps.log.info({ socket: path, networks: networks.length, port }, 'relay started');
  }

  async close(): Promise<void> {
    for (const { socket } of this.#options.ports) {
      if (socket !== undefined) await rm(socket, { force: true });
    }
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }

  #take(socket: Socket, port: number): void {
    this.#keep(socket);
    awaitProxyHeader(socket, headerMs, (result) => {
      if (typeof result === 'string') this.#refuse(socket, { reason: result });
      else {
        const { network, address } = result;
        this.#passOn(socket, { networks: [network], address }, port);
      }
    });
  }

  #passOn(socket: Socket, origin: ConnectionOrigin, port: number): void {
    this.#tryToPassOn(socket, origin, port).catch((error: unknown) => {
      // Such as an id that a tenant has written into a port of its own.
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#refuse(socket, { reason: `relay-nobody: ${reason}` });
    });
  }

  async #tryToPassOn(socket: Socket, origin: ConnectionOrigin, port: number): Promise<void> {
    const { networks, address } = origin;
    const [network = ''] = networks;
    if (!this.#counts.tryAdd(socket, network, this.#options.connectionsPerNetwork ?? 1000)) {
      this.#refuse(socket, { reason: 'relay-connections-of-network', network, address });
      return;
    }
    const instance = await this.#find(origin);
    if (socket.destroyed) return;
    if (instance === undefined) {
      this.#refuse(socket, { reason: 'relay-nobody', network, address });
      return;
    }
    const key = `instance:${instance.instance}`;
    if (!this.#counts.tryAdd(socket, key, this.#options.connectionsPerInstance ?? 32)) {
      this.#refuse(socket, { reason: 'relay-connections-of-instance', network, address });
      return;
    }
    // What the proxy says of an instance is not asked for: it knows of none.
    const ids = { network, ...instance };
    const header = encodeProxyHeader(ids, { address, port: 0 }, { address: nowhere, port });
    this.#join(socket, port, header);
  }

  async #find({ networks, address }: ConnectionOrigin): Promise<AgentInstance | undefined> {
    try {
      const key = [address, ...networks].join(' ');
      return await this.#found.of(key, () => this.#ask({ networks, address }));
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#warnings.warn('find', { networks, address, reason }, 'instance not looked up');
      return undefined;
    }
  }

  /** What a proxy names may be a router: no network has its id. */
  async #ask({ networks, address }: ConnectionOrigin): Promise<AgentInstance | undefined> {
    const { find, networksOf } = this.#deps;
    const found = await find(networks, address);
    const [place, ...more] = networks;
    if (found !== undefined || place === undefined || more.length > 0) return found;
    const behind = (await networksOf?.(place)) ?? [];
    return behind.length === 0 ? undefined : find(behind, address);
  }

  /** No timeout for silence: a subscription has nothing to say. */
  #join(socket: Socket, port: number, header: Buffer): void {
    const { host } = this.#options;
    const keepAlive = { keepAlive: true, keepAliveInitialDelay: keepAliveMs, noDelay: true };
    const upstream = net.connect({ host, port, ...keepAlive });
    this.#keep(upstream);
    upstream.write(header);
    upstream.once('close', () => socket.destroy());
    socket.once('close', () => upstream.destroy());
    socket.pipe(upstream);
    upstream.pipe(socket);
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    // Either end may go at any time; 'close' follows.
    socket.on('error', () => {});
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #refuse(socket: Socket, about: Refusal): void {
    this.#warnings.warn(about.reason, about, 'relayed connection refused');
    socket.destroy();
  }
}

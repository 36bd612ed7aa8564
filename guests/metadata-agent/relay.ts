/**
 * Relays connections of minions in other networks to Salt's two ports of the master. A proxy in the
 * network states the network and the address of each connection. Alternatively, the relay itself
 * listens in the network. The relay sends the identity of the instance to the master. It limits the
 * connections of each network and each instance.
 */

import { rm } from 'node:fs/promises';
import net, { type Socket } from 'node:net';
import type { Logger } from 'pino';
import { awaitProxyHeader, encodeProxyHeader } from '#minion-protocol';
import { listenPrivately, RecentAnswers, RepeatedWarnings } from '#runtime';
import { guestLimits } from '../limits.ts';
import type { AgentInstance } from './agent-credentials.ts';
import type { FindInstance, FindNetworks } from './metadata-agent.ts';
import {
  type AgentNetwork,
  ConnectionCounts,
  type ConnectionOrigin,
  listenInNetwork,
} from './network-listeners.ts';

/** One of Salt's two ports. */
interface RelayedPort {
  /** Path of the Unix socket to which proxies connect with a PROXY header. Default: none. */
  readonly socket?: string | undefined;
  /** Port on which the relay itself listens in networks. */
  readonly guestPort?: number;
  /** Port of the master to which the relay connects. */
  readonly port: number;
}

export interface RelayOptions {
  /** Host of the master. */
  readonly host: string;
  readonly ports: readonly RelayedPort[];
  /** Networks in which the relay itself listens. Default: none. */
  readonly networks?: readonly AgentNetwork[] | undefined;
  /** Maximum number of connections from one network. Default: 1,000. */
  readonly connectionsPerNetwork?: number | undefined;
  /** Maximum number of connections from one instance. Default: 32. */
  readonly connectionsPerInstance?: number | undefined;
}

export interface RelayDeps {
  readonly find: FindInstance;
  /** Looks up the networks of a router. Default: connections through routers are rejected. */
  readonly networksOf?: FindNetworks | undefined;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Running relay. */
export interface Relay {
  close(): Promise<void>;
}

interface Refusal {
  readonly reason: string;
  readonly network?: string;
  readonly address?: string;
}

const headerMs = 5000;
/**
 * Idle time before the first keep-alive probe, in milliseconds. If probes fail, the connection is
 * closed.
 */
const keepAliveMs = 60_000;
/**
 * Time for which lookups of instances are cached, in milliseconds, even if no instance was found.
 * Minions open a connection for each request. If an address moves to another instance, the relay
 * attributes its connections to the previous instance until the cached result expires.
 */
const foundForMs = 5000;
/** Destination address in the PROXY header that the relay sends. The master ignores it. */
const nowhere = '0.0.0.0';

/**
 * Starts a relay.
 * @throws errors of the operating system
 */
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
  /** Numbers of open connections of each network and of each instance. */
  readonly #counts = new ConnectionCounts();
  /** Recent lookups of instances by address. */
  readonly #found = new RecentAnswers<AgentInstance | undefined>({
    maxAgeMs: foundForMs,
    limit: guestLimits.foundInstances,
    monotonic: () => performance.now(),
  });

  constructor(options: RelayOptions, deps: RelayDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#warnings = new RepeatedWarnings(deps.log);
  }

  /**
   * Starts to listen on the Unix socket to which proxies connect, and on ports in the configured
   * networks. Clients of the socket can name any network, so only privileged processes may connect
   * to it.
   */
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
      // The lookup can fail, for example if a tenant has set an invalid id on its port.
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
    // Ignore an identity in the header of the proxy, because proxies do not know instances.
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
      this.#warnings.warn(
        'find',
        { networks, address, reason },
        'could not identify the instance of a relayed connection',
      );
      return undefined;
    }
  }

  /**
   * Looks up the instance with an address in the networks. If `networks` contains only one id and
   * no instance is found, the id may be that of a router. In this case, searches the networks of
   * the router.
   */
  async #ask({ networks, address }: ConnectionOrigin): Promise<AgentInstance | undefined> {
    const { find, networksOf } = this.#deps;
    const found = await find(networks, address);
    const [place, ...more] = networks;
    if (found !== undefined || place === undefined || more.length > 0) return found;
    const behind = (await networksOf?.(place)) ?? [];
    return behind.length === 0 ? undefined : find(behind, address);
  }

  /**
   * Connects a minion to the master. There is no idle timeout, because the subscription of a minion
   * may be idle for a long time.
   */
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
    // Ignore errors of both sockets, because 'close' follows and closes the other socket.
    socket.on('error', () => {});
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #refuse(socket: Socket, about: Refusal): void {
    this.#warnings.warn(
      about.reason,
      about,
      'closed a connection of an instance instead of relaying it',
    );
    socket.destroy();
  }
}

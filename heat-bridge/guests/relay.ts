/**
 * A relay of Salt's two ports, between the proxies of networks and the master. A proxy says network
 * and address of each connection; the relay adds whose they are, and bounds what each may have.
 */

import { rm } from 'node:fs/promises';
import net, { type Socket } from 'node:net';
import type { Logger } from 'pino';
import {
  awaitProxyHeader,
  encodeProxyHeader,
  type RelayedPeer,
} from '../../minion-protocol/index.ts';
import { listenPrivately, RepeatedWarnings } from '../../runtime/index.ts';
import type { AgentInstance } from './agent-credentials.ts';

/** One of the two ports. */
interface RelayedPort {
  /** Path of the Unix socket that proxies connect to, with a PROXY header. */
  readonly socket: string;
  /** Of the master's ports for relays. */
  readonly port: number;
}

export interface RelayOptions {
  /** Where the master listens for relays. */
  readonly host: string;
  readonly ports: readonly RelayedPort[];
  /** The most connections of one network. Default 1,000. */
  readonly connectionsPerNetwork?: number | undefined;
  /** The most connections of one instance. Default 32. */
  readonly connectionsPerInstance?: number | undefined;
}

export interface RelayDeps {
  /** Who has an address in a network, if that is exactly one instance. */
  readonly find: (network: string, address: string) => Promise<AgentInstance | undefined>;
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
  readonly #counts = new Map<string, number>();

  constructor(options: RelayOptions, deps: RelayDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#warnings = new RepeatedWarnings(deps.log);
  }

  /** Whoever can connect can say which network it is. */
  async listen({ socket: path, port }: RelayedPort): Promise<void> {
    const server = net.createServer((socket) => this.#take(socket, port));
    this.#servers.push(server);
    await listenPrivately(server, path);
    this.#deps.log.info({ socket: path, port }, 'relay started');
  }

  async close(): Promise<void> {
    for (const { socket } of this.#options.ports) await rm(socket, { force: true });
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }

  #take(socket: Socket, port: number): void {
    this.#keep(socket);
    awaitProxyHeader(socket, headerMs, (result) => {
      if (typeof result === 'string') this.#refuse(socket, { reason: result });
      else void this.#passOn(socket, result, port);
    });
  }

  async #passOn(socket: Socket, { network, address }: RelayedPeer, port: number): Promise<void> {
    if (!this.#count(socket, network, this.#options.connectionsPerNetwork ?? 1000)) {
      this.#refuse(socket, { reason: 'relay-connections-of-network', network, address });
      return;
    }
    const instance = await this.#find(network, address);
    if (socket.destroyed) return;
    if (instance === undefined) {
      this.#refuse(socket, { reason: 'relay-nobody', network, address });
      return;
    }
    const key = `instance:${instance.instance}`;
    // protection: relay-connections-of-instance
    if (!this.#count(socket, key, this.#options.connectionsPerInstance ?? 32)) {
      this.#refuse(socket, { reason: 'relay-connections-of-instance', network, address });
      return;
    }
    // What the proxy says of an instance is not asked for: it knows of none.
    const ids = { network, ...instance };
    const header = encodeProxyHeader(ids, { address, port: 0 }, { address: nowhere, port });
    this.#join(socket, port, header);
  }

  async #find(network: string, address: string): Promise<AgentInstance | undefined> {
    try {
      return await this.#deps.find(network, address);
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#warnings.warn('find', { network, address, reason }, 'instance not looked up');
      return undefined;
    }
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

  /** Counts a connection until its end. @returns false: there are too many */
  #count(socket: Socket, key: string, most: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= most) return false;
    this.#counts.set(key, count + 1);
    socket.once('close', () => {
      const left = (this.#counts.get(key) ?? 1) - 1;
      if (left === 0) this.#counts.delete(key);
      else this.#counts.set(key, left);
    });
    return true;
  }

  #refuse(socket: Socket, about: Refusal): void {
    this.#warnings.warn(about.reason, about, 'relayed connection refused');
    socket.destroy();
  }
}

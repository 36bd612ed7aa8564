/**
 * Listeners of a metadata agent in the networks themselves, without a proxy between: where a
 * connection comes from is what its socket says, and its network is that of the listener.
 */

import { spawn } from 'node:child_process';
import net, { type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { BridgeError } from '#heat-bridge';

/** Where an agent listens for the instances of one network. */
export interface AgentNetwork {
  /** Id of the network. Several: those of a router, whose addresses differ. */
  readonly networks: readonly string[];
  /** The network namespace that it listens in, by its name in `/run/netns`. Default: its own. */
  readonly namespace: string | undefined;
  /** A link-local one has its device: `fe80::a9fe:a9fe%tap0`. */
  readonly addresses: readonly string[];
  /** For metadata. */
  readonly port: number;
}

/** Where a connection comes from. */
export interface ConnectionOrigin {
  readonly networks: readonly string[];
  readonly address: string;
}

/** Connections of one address to one listener. */
const connectionsPerAddress = 64;
const connectionsPerNetwork = 1024;
const startMs = 10_000;
const listenerProgram: string = fileURLToPath(new URL('namespace-listener.ts', import.meta.url));

/**
 * Listens on a port of each address of a network.
 * @throws BridgeError ERR_BRIDGE_OPTIONS where that cannot be
 */
export async function listenInNetwork(
  { namespace, networks, addresses }: Omit<AgentNetwork, 'port'>,
  port: number,
  take: (socket: Socket, origin: ConnectionOrigin) => void,
): Promise<readonly Server[]> {
  const servers: Server[] = [];
  const counts = new ConnectionCounts();
  const onConnection = (socket: Socket): void => {
    const address = plainAddress(socket.remoteAddress ?? '');
    // The other end is gone already.
    if (net.isIP(address) === 0) {
      socket.destroy();
      return;
    }
    if (!counts.tryAdd(socket, address, connectionsPerAddress)) {
      socket.destroy();
      return;
    }
    take(socket, { networks, address });
  };
  try {
    for (const address of addresses) {
      const server = await listen(namespace, address, port);
      server.maxConnections = connectionsPerNetwork;
      server.on('connection', onConnection);
      servers.push(server);
    }
    return servers;
  } catch (cause) {
    for (const server of servers) server.close();
    const problem = cause instanceof Error ? cause.message : 'unknown';
    const where = namespace === undefined ? '' : ` in the namespace ${namespace}`;
    const text = `networks: cannot listen on ${addresses.join(', ')} port ${port}${where}: ${problem}`;
    throw new BridgeError('ERR_BRIDGE_OPTIONS', text, { cause });
  }
}

/** Connections by whatever they are counted by. */
export class ConnectionCounts {
  readonly #counts = new Map<string, number>();

  /** Counts a connection until its end. @returns false: there are too many */
  tryAdd(socket: Socket, key: string, most: number): boolean {
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
}

/** As ports have it: without the device of a link-local one, and IPv4 as IPv4. */
export function plainAddress(address: string): string {
  return address
    .replace(/%.*$/, '')
    .replace(/^::ffff:(?=\d+\.)/i, '')
    .toLowerCase();
}

function listen(namespace: string | undefined, host: string, port: number): Promise<Server> {
  if (namespace !== undefined) return listenInNamespace(namespace, host, port);
  const server = net.createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve(server));
  });
}

/** By a process in the namespace that gives its listening socket to this one and ends. */
function listenInNamespace(namespace: string, host: string, port: number): Promise<Server> {
  const inside = [`--net=/run/netns/${namespace}`, process.execPath, listenerProgram];
  return new Promise((resolve, reject) => {
    const child = spawn('nsenter', [...inside, host, String(port)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      timeout: startMs,
    });
    let said = '';
    child.stderr?.on('data', (text) => {
      said = `${said}${text}`.slice(0, 500);
    });
    child.once('error', reject);
    child.on('message', (message, handle) => {
      if (handle instanceof net.Server) resolve(handle);
      else reject(new Error(Object(message).problem));
    });
    // Unlike its exit, the end of the channel comes behind all that was sent.
    child.once('disconnect', () => reject(new Error(said.trim() || 'no listener was made')));
  });
}

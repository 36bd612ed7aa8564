/**
 * Listeners of a metadata agent in networks, without a proxy. The listener that accepts a
 * connection determines the network of the sender. The socket determines the address of the sender.
 */

import { spawn } from 'node:child_process';
import net, { type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { BridgeError } from '#heat-bridge';

/** Network in which an agent listens for instances. */
export interface AgentNetwork {
  /**
   * Ids of the networks: one network, or several networks of one router. No address occurs twice in
   * these networks.
   */
  readonly networks: readonly string[];
  /**
   * Network namespace in which to listen, by its name in `/run/netns`. Default: the namespace of
   * the process.
   */
  readonly namespace: string | undefined;
  /** Addresses to listen on. A link-local address includes its device: `fe80::a9fe:a9fe%tap0`. */
  readonly addresses: readonly string[];
  /** Port on which the agent accepts metadata requests. */
  readonly port: number;
}

/** Networks and address of the sender of a connection. */
export interface ConnectionOrigin {
  readonly networks: readonly string[];
  readonly address: string;
}

/** Maximum number of connections from one address to one listener. */
const connectionsPerAddress = 64;
const connectionsPerNetwork = 1024;
const startMs = 10_000;
const listenerProgram: string = fileURLToPath(new URL('namespace-listener.ts', import.meta.url));

/**
 * Listens on a port of each address of a network.
 * @throws BridgeError ERR_BRIDGE_OPTIONS if an address is unavailable
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
    // The socket has no address if the other end has already disconnected.
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

/**
 * Number of open connections for each key. A key is, for example, an address, a network or an
 * instance.
 */
export class ConnectionCounts {
  readonly #counts = new Map<string, number>();

  /**
   * Counts a connection until it closes.
   * @returns false if the limit is reached
   */
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

/**
 * Returns an address in the form of Neutron's ports. Omits the device of a link-local address, and
 * the prefix of an IPv4 address in an IPv6 address.
 */
export function plainAddress(address: string): string {
  return address
    .replace(/%.*/s, '')
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

/**
 * Listens in a network namespace. A child process in the namespace opens the socket, passes it to
 * this process, and exits.
 */
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
    // Wait for 'disconnect', which follows all messages. 'exit' can precede them.
    child.once('disconnect', () =>
      reject(
        new Error(
          said.trim() ||
            'the process that opens sockets in the network namespace ended before it opened one',
        ),
      ),
    );
  });
}

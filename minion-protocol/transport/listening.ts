/** Binds TCP ports. */
import { createServer, type Server, type Socket } from 'node:net';
import { formatHostPort, TransportError } from './transport.ts';

export interface ListenOptions {
  readonly host: string;
  /** Port to bind. 0 selects a free port. */
  readonly port: number;
  readonly backlog: number;
  /**
   * Idle time before the first keep-alive probe, in milliseconds. 0 uses the system's default;
   * `null` disables probes.
   */
  readonly keepAliveIdleMs: number | null;
}

/** A bound port. */
export interface BoundServer {
  readonly server: Server;
  readonly port: number;
}

/**
 * Opens a server and binds it to a port.
 * @throws {@link TransportError} ERR_LISTEN, naming host and port
 */
export function listenOn(
  options: ListenOptions,
  onConnection: (socket: Socket) => void,
): Promise<BoundServer> {
  const server = createServer(
    {
      noDelay: true,
      keepAlive: options.keepAliveIdleMs !== null,
      keepAliveInitialDelay: options.keepAliveIdleMs ?? 0,
    },
    onConnection,
  );
  return bind(server, options);
}

/**
 * Binds a server to a port.
 * @throws {@link TransportError} ERR_LISTEN, naming host and port
 */
export async function bind(server: Server, options: ListenOptions): Promise<BoundServer> {
  const { host, port, backlog } = options;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenError(options, error)));
    server.listen({ host, port, backlog }, resolve);
  });
  server.removeAllListeners('error');
  // After the port is bound, an error concerns one incoming connection, for example if no file
  // descriptor is free. The peer connects again.
  server.on('error', () => {});
  const bound = server.address();
  return { server, port: typeof bound === 'object' && bound !== null ? bound.port : port };
}

function listenError({ host, port }: ListenOptions, cause: Error): TransportError {
  const reason = 'code' in cause ? reasons.get(cause.code) : undefined;
  return new TransportError(
    'ERR_LISTEN',
    `cannot listen on ${formatHostPort(host, port)}: ${reason ?? cause.message}`,
    { cause },
  );
}

const reasons: ReadonlyMap<unknown, string> = new Map([
  ['EADDRINUSE', 'the port is in use by another process (another master?)'],
  ['EACCES', 'the user of this process is not permitted to bind the port'],
  ['EADDRNOTAVAIL', 'no network interface of this machine has the address'],
]);

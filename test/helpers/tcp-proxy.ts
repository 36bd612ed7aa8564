/** A proxy in front of a server. Tests can cut and slow down its connections. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../bench/free-port.ts';

/** Direction in which data is lost. */
type Direction = 'to-server' | 'to-client';

/** Forwards bytes to a port of this machine. */
export class TcpProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #upstreams = new Set<Socket>();
  #lost: ReadonlySet<Direction> = new Set();
  #delayMs = 0;

  static async start(target: number): Promise<TcpProxy> {
    return new TcpProxy(await freePort(), target);
  }

  private constructor(port: number, target: number) {
    this.port = port;
    this.#server = createServer({ allowHalfOpen: true }, (client) => {
      const upstream = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true });
      this.#upstreams.add(upstream);
      this.#pass(client, upstream, 'to-server');
      this.#pass(upstream, client, 'to-client');
    }).listen(port, '127.0.0.1');
  }

  /** Drops all data, or the data in one direction. Neither side is notified. */
  cut(...directions: readonly Direction[]): void {
    this.#lost = new Set(directions.length === 0 ? ['to-server', 'to-client'] : directions);
  }

  /** Delays all data by `delayMs` milliseconds. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /**
   * Notifies the server that the clients send nothing more. Data from the server is still
   * forwarded.
   */
  halfClose(): void {
    for (const upstream of this.#upstreams) upstream.end();
  }

  /** Forwards new connections again. Old connections are ended, because they have lost data. */
  mend(): void {
    this.#lost = new Set();
    this.#delayMs = 0;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Ends all connections, and refuses new ones until {@link resume}. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Accepts connections again after {@link close}. */
  resume(): void {
    this.#server.listen(this.port, '127.0.0.1');
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    this.#sockets.add(from);
    const waiting: Buffer[] = [];
    const write = (bytes: Buffer | undefined): void => {
      // Data that is sent while the connection is cut is lost, as on a broken line.
      if (bytes !== undefined && !this.#lost.has(direction) && to.writable) to.write(bytes);
    };
    from.on('data', (bytes) => {
      if (this.#delayMs === 0 && waiting.length === 0) return write(bytes);
      waiting.push(bytes);
      setTimeout(() => write(waiting.shift()), this.#delayMs);
    });
    from.on('end', () => to.end());
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      this.#upstreams.delete(from);
      to.destroy();
    });
  }
}

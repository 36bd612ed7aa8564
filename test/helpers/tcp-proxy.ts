/** A connection to a server that can be cut, and made slow. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../bench/free-port.ts';

/** What is lost: what the client sends, what the server sends, or both. */
type Direction = 'to-server' | 'to-client';

/** Passes bytes on to a port of this machine, until it is told not to. */
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

  /** Nothing comes through any more, or nothing in one direction, and nobody is told. */
  cut(...directions: readonly Direction[]): void {
    this.#lost = new Set(directions.length === 0 ? ['to-server', 'to-client'] : directions);
  }

  /** What is sent comes so much later. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** The server is told that the clients send nothing more; what it sends still comes through. */
  halfClose(): void {
    for (const upstream of this.#upstreams) upstream.end();
  }

  /** New connections come through; old ones have lost bytes and end. */
  mend(): void {
    this.#lost = new Set();
    this.#delayMs = 0;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    this.#sockets.add(from);
    const waiting: Buffer[] = [];
    const write = (bytes: Buffer | undefined): void => {
      // What is sent while it is cut is kept by nobody, as on a broken line.
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

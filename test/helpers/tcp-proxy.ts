/** A connection to a server that can be cut. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../bench/free-port.ts';

/** Passes bytes on to a port of this machine, until it is told not to. */
export class TcpProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  static async start(target: number): Promise<TcpProxy> {
    return new TcpProxy(await freePort(), target);
  }

  private constructor(port: number, target: number) {
    this.port = port;
    this.#server = createServer((client) => {
      const upstream = connect(target, '127.0.0.1');
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(from);
        // What is sent while it is cut is kept by nobody, as on a broken line.
        from.on('data', (bytes) => {
          if (!this.#isCut) to.write(bytes);
        });
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    }).listen(port, '127.0.0.1');
  }

  /** Nothing comes through any more, and nobody is told. */
  cut(): void {
    this.#isCut = true;
  }

  /** New connections come through; old ones have lost bytes and end. */
  mend(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

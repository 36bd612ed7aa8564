/**
 * Starts a ZeroMQ listener on free loopback ports, and connects plain TCP clients that can send any
 * bytes.
 */
import { createConnection, type Socket } from 'node:net';
import type { ExecutionContext } from 'ava';
import type { BoundPorts, MasterTransport } from '#minion-protocol';
import { createZeromqListener } from '#minion-protocol';
import type { RequestHandler } from '#minion-protocol/transport/transport.ts';
import type { ZeromqListenerOptions } from '#minion-protocol/transport/zeromq-listener.ts';
import { within } from './deadline.ts';

export const HOST = '127.0.0.1';

export interface Master extends BoundPorts {
  readonly transport: MasterTransport;
}

/**
 * Starts a listener, which runs until the end of the test. By default it answers every request with
 * the request itself.
 */
export async function startMaster(
  t: ExecutionContext,
  options: ZeromqListenerOptions = {},
  handler: RequestHandler = async (request) => request,
): Promise<Master> {
  const ports = { requestPort: 0, publishPort: 0 };
  const transport = createZeromqListener({ host: HOST, ...ports, ...options });
  t.teardown(() => transport.close(0));
  return { transport, ...(await transport.listen(handler)) };
}

/** A TCP connection without a protocol. */
export class RawPeer {
  readonly socket: Socket;
  readonly #chunks: Buffer[] = [];
  readonly #closed: Promise<void>;
  receivedBytes = 0;

  constructor(socket: Socket) {
    this.socket = socket;
    this.#closed = new Promise((resolve) => {
      socket.once('close', () => resolve());
    });
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      this.#chunks.push(chunk);
      this.receivedBytes += chunk.length;
    });
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  write(...pieces: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(pieces));
  }

  /** Waits until the other side has closed the connection. */
  closed(what: string): Promise<void> {
    return within(`the end of a connection: ${what}`, this.#closed);
  }
}

/** Connects. The connection is closed at the end of the test. */
export async function connectRaw(t: ExecutionContext, port: number): Promise<RawPeer> {
  const peer = await openRaw(port);
  t.teardown(() => peer.socket.destroy());
  return peer;
}

/** Connects. The caller must close the connection. */
export async function openRaw(port: number): Promise<RawPeer> {
  const socket = createConnection({ host: HOST, port });
  const peer = new RawPeer(socket);
  const connected = new Promise<void>((resolve) => {
    socket.once('connect', resolve);
  });
  await within('a TCP connection', connected);
  return peer;
}

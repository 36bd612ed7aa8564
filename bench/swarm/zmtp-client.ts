/**
 * Minimal ZMTP 3 client over `node:net`. Its processor time is so low that it does not affect the
 * measurements. It offers a DEALER that pipelines requests, and a SUB that receives all
 * publications.
 */
import { connect, type Socket } from 'node:net';

const greeting = Buffer.concat([
  Buffer.from('ff00000000000000007f0300', 'hex'),
  Buffer.from('NULL'.padEnd(20, '\0'), 'latin1'),
  Buffer.alloc(32),
]);
const greetingBytes = 64;

function ready(socketType: 'DEALER' | 'SUB'): Buffer {
  const type = Buffer.from(socketType, 'latin1');
  const body = Buffer.concat([
    Buffer.from('\x05READY\x0bSocket-Type', 'latin1'),
    Buffer.from([0, 0, 0, type.length]),
    type,
  ]);
  return Buffer.concat([Buffer.from([4, body.length]), body]);
}

/**
 * Splits received bytes into frames. `onFrame` gets each frame, and whether more frames of the
 * message follow.
 */
class FrameReader {
  readonly #onFrame: (body: Buffer, more: boolean) => void;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /**
   * Number of bytes that the current frame needs. Received chunks are joined when all of these
   * bytes have arrived.
   */
  #neededBytes = 0;
  #isGreeted = false;

  constructor(onFrame: (body: Buffer, more: boolean) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes < this.#neededBytes) return;
    this.#hold(this.#frames(Buffer.concat(this.#held)));
  }

  #hold(rest: Buffer): void {
    this.#held = [rest];
    this.#heldBytes = rest.length;
    const isLong = rest.length >= 9 && (rest.readUInt8(0) & 2) !== 0;
    this.#neededBytes = this.#isGreeted && isLong ? 9 + Number(rest.readBigUInt64BE(1)) : 0;
  }

  /**
   * Processes all complete frames.
   * @returns the bytes after the last complete frame
   */
  #frames(data: Buffer): Buffer {
    let rest = data;
    if (!this.#isGreeted) {
      if (rest.length < greetingBytes) return rest;
      this.#isGreeted = true;
      rest = rest.subarray(greetingBytes);
    }
    for (;;) {
      const frame = tryFrame(rest);
      if (frame === undefined) break;
      rest = rest.subarray(frame.bytes);
      if (!frame.isCommand) this.#onFrame(frame.body, frame.more);
    }
    return rest;
  }
}

interface Frame {
  readonly body: Buffer;
  readonly bytes: number;
  readonly more: boolean;
  readonly isCommand: boolean;
}

function tryFrame(data: Buffer): Frame | undefined {
  if (data.length < 2) return undefined;
  const flags = data.readUInt8(0);
  const isLong = (flags & 2) !== 0;
  if (isLong && data.length < 9) return undefined;
  const start = isLong ? 9 : 2;
  const length = isLong ? Number(data.readBigUInt64BE(1)) : data.readUInt8(1);
  if (data.length < start + length) return undefined;
  return {
    body: data.subarray(start, start + length),
    bytes: start + length,
    more: (flags & 1) !== 0,
    isCommand: (flags & 4) !== 0,
  };
}

function frame(body: Uint8Array): Buffer {
  const header = Buffer.alloc(body.length < 256 ? 2 : 9);
  if (body.length < 256) header.writeUInt8(body.length, 1);
  else {
    header.writeUInt8(2, 0);
    header.writeBigUInt64BE(BigInt(body.length), 1);
  }
  return Buffer.concat([header, body]);
}

const emptyFrame = Buffer.from([1, 0]);

/** Sends requests over one connection. Replies arrive in the order of the requests. */
export class Dealer {
  /** Resolves when either side has closed the connection. */
  readonly ended: Promise<void>;
  readonly #socket: Socket;
  #waiting: Waiting[] = [];

  /** @param localAddress - local address of the connection, in the loopback network */
  constructor(port: number, localAddress = '127.0.0.1', host = '127.0.0.1') {
    this.#socket = connect({ port, host, localAddress });
    this.#socket.setNoDelay();
    const reader = new FrameReader((body, more) => {
      if (!more) this.#waiting.shift()?.resolve(Buffer.from(body));
    });
    this.#socket.on('data', (chunk: Buffer) => reader.push(chunk));
    // The event 'close' follows, and handles the error.
    this.#socket.on('error', () => {});
    this.ended = new Promise((resolve) => {
      this.#socket.once('close', () => {
        this.#abandon();
        resolve();
      });
    });
    this.#socket.write(greeting);
    this.#socket.write(ready('DEALER'));
  }

  /** Number of requests without a reply. */
  get waiting(): number {
    return this.#waiting.length;
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  /**
   * Sends a request and returns its reply.
   * @throws ConnectionEnded if the connection ends before the reply
   */
  ask(body: Uint8Array): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(new ConnectionEnded());
        return;
      }
      this.#waiting.push({ resolve, reject });
      this.#socket.cork();
      this.#socket.write(emptyFrame);
      this.#socket.write(frame(body));
      process.nextTick(() => this.#socket.uncork());
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #abandon(): void {
    const abandoned = this.#waiting;
    this.#waiting = [];
    for (const { reject } of abandoned) reject(new ConnectionEnded());
  }
}

interface Waiting {
  readonly resolve: (reply: Buffer) => void;
  readonly reject: (error: ConnectionEnded) => void;
}

/** Error for a connection that ended before the reply. */
export class ConnectionEnded extends Error {
  constructor() {
    super('the connection was closed before the reply');
  }
}

/** Subscribes to all publications. Resolves when the subscription was sent. */
export function subscribe(
  port: number,
  onMessage: (body: Buffer) => void,
  host = '127.0.0.1',
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    const reader = new FrameReader((body) => onMessage(body));
    socket.on('data', (chunk: Buffer) => reader.push(chunk));
    // If there was a connection, the event 'close' follows, and handles the error.
    socket.on('error', reject);
    socket.once('connect', () => {
      socket.write(Buffer.concat([greeting, ready('SUB'), Buffer.from([0, 1, 1])]));
      resolve(socket);
    });
  });
}

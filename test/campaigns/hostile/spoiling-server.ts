/**
 * A server that the master asks. It gives an honest answer, or an answer that is spoiled in one
 * respect.
 */

import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, STATUS_CODES } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { Cleanup } from '../../helpers/cleanup.ts';
import { withField } from './schemas.ts';
import { jsonOf, textOf } from './values.ts';

/** Honest answer over HTTP. A body that is not text or bytes is sent as JSON. */
export interface HttpAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Honest server. It answers HTTP requests, or messages of another protocol. */
export type HonestServer =
  | { readonly http: (request: HeardRequest) => HttpAnswer }
  | { readonly raw: (message: Buffer) => Buffer };

export interface HeardRequest {
  readonly method: string;
  readonly path: string;
}

/** Spoiled respect of the answers. */
export interface Spoil {
  readonly field: string;
  readonly value: unknown;
}

/** Counts of one case. */
export interface ServerCounts {
  readonly requests: number;
  /** Bytes that the server has sent. */
  readonly bytes: number;
  /** Connections to another server, which only spoiled answers name. */
  readonly strays: number;
}

/** Respects in which an answer over HTTP is spoiled, besides its body. */
export const httpSpoils = {
  head: ['status', 'header', 'headers', 'location', 'length', 'encoding', 'protocol', 'hints'],
  stream: ['size', 'endless', 'unfinished', 'cut', 'garbage'],
} as const;
export const rawSpoils = ['bytes', 'repeat', 'endless', 'unfinished', 'cut'] as const;

/** Number of bytes after which an endless answer ends. The master must have ended it before. */
const endlessBytes = 200_000_000;
/** Time after which the server closes an unfinished answer, in milliseconds. */
const unfinishedMs = 200;
const manyHeaders = 2_000;

const statuses = [100, 101, 103, 199, 202, 204, 206, 300, 304, 400, 401, 404, 429, 500, 503, 999];
const lengths = ['0', '1', '999999', '99999999999999999999', '-1', '1e3', '0x10', 'x', '1, 2', ''];
const sizes = [65_536, 65_537, 524_289, 1_048_577, 4_194_305, 16_777_217, 33_554_433];

/** Zeros of 640 MiB, as a gzip file with several members. */
let bomb: Buffer | undefined;
function gzipBomb(): Buffer {
  if (bomb === undefined) {
    const member = gzipSync(Buffer.alloc(16_777_216));
    bomb = Buffer.concat(Array.from({ length: 40 }, () => member));
  }
  return bomb;
}

export class SpoilingServer {
  readonly #http: Server;
  readonly #raw: Server;
  readonly #elsewhere: Server;
  readonly #sockets = new Set<Socket>();
  #honest: HonestServer = { http: () => ({ body: {} }) };
  #spoil: Spoil | undefined;
  #requests = 0;
  #bytes = 0;
  #strays = 0;

  private constructor() {
    this.#http = createHttpServer({ keepAliveTimeout: 1_000 }, (request) => {
      request.resume();
      request.once('end', () => void this.#answer(request));
    });
    this.#raw = createServer((socket) => {
      socket.on('data', (message) => void this.#reply(socket, message));
    });
    this.#elsewhere = createServer((socket) => {
      this.#strays += 1;
      socket.destroy();
    });
    for (const server of [this.#http, this.#raw]) {
      server.on('connection', (socket: Socket) => {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.once('close', () => {
          this.#sockets.delete(socket);
          this.#bytes += socket.bytesWritten;
        });
      });
    }
  }

  /** Starts the servers. They are closed with `cleanup`. */
  static async start(cleanup: Cleanup): Promise<SpoilingServer> {
    const it = new SpoilingServer();
    for (const server of [it.#http, it.#raw, it.#elsewhere]) {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      cleanup.teardown(() => server.close());
    }
    cleanup.teardown(() => it.#closeConnections());
    return it;
  }

  get origin(): string {
    return `http://127.0.0.1:${portOf(this.#http)}`;
  }

  /** Port of protocols other than HTTP. */
  get rawPort(): number {
    return portOf(this.#raw);
  }

  /** Sets the answers of the next case. Without a spoil, they are honest. */
  prepare(honest: HonestServer, spoil?: Spoil): void {
    this.#honest = honest;
    this.#spoil = spoil;
  }

  /** Closes all connections, and returns the counts since the last call. */
  async take(): Promise<ServerCounts> {
    await this.#closeConnections();
    const counts = { requests: this.#requests, bytes: this.#bytes, strays: this.#strays };
    [this.#requests, this.#bytes, this.#strays] = [0, 0, 0];
    return counts;
  }

  async #closeConnections(): Promise<void> {
    const closed = [...this.#sockets].map((socket) => {
      socket.destroy();
      return once(socket, 'close');
    });
    await Promise.all(closed);
  }

  /**
   * Answers a request. In about half of the cases, the first answer is honest, so that the next
   * request is reached.
   */
  async #answer(request: IncomingMessage): Promise<void> {
    this.#requests += 1;
    const honest = this.#honest;
    if (!('http' in honest)) return;
    const { method = 'GET', url = '/', socket } = request;
    const answer = honest.http({ method, path: url });
    const spoil = this.#spoil;
    const isHonest = this.#requests === 1 && seedOf(spoil?.value) % 2 === 1;
    const sent = this.#send(socket, answer, isHonest ? undefined : spoil, url);
    // The master may close the connection at any time.
    await sent.catch(() => {});
  }

  async #send(
    socket: Socket,
    { status = 200, headers = {}, body }: HttpAnswer,
    { field, value }: Spoil = { field: '', value: '' },
    path: string,
  ): Promise<void> {
    const seed = seedOf(value);
    const head = { ...headers };
    let code = status;
    let content = bytesOf(body);
    if (field.startsWith('body')) {
      content = bytesOf(typeof body === 'object' ? withField(body, field.slice(5), value) : value);
    }
    if (field === 'status') code = pick(statuses, seed);
    if (field === 'header') {
      for (const name of ['content-type', 'retry-after', 'set-cookie', ...Object.keys(head)])
        head[name] = lineOf(value);
    }
    if (field === 'headers') {
      // The text is made once, because this server shares the thread of the master.
      const line = lineOf(value).slice(0, 500);
      for (let at = 0; at < manyHeaders; at += 1) head[`x-${at}`] = line;
    }
    if (field === 'location') {
      code = pick([301, 302, 303, 307, 308], seed);
      const elsewhere = `http://127.0.0.1:${portOf(this.#elsewhere)}${path}`;
      head.location = pick([elsewhere, path, lineOf(value)], seed);
    }
    if (field === 'encoding') {
      head['content-encoding'] = pick(['gzip', 'gzip', 'br', lineOf(value)], seed);
      if (seed % 4 < 2) content = gzipBomb();
    }
    if (field === 'size') content = Buffer.concat([content, Buffer.alloc(pick(sizes, seed), ' ')]);
    if (field === 'protocol') {
      [code, head.connection, head.upgrade] = [101, 'Upgrade', 'x'];
    }
    if (field === 'garbage') {
      socket.end(textOf(value));
      return;
    }
    const isEndless = field === 'endless';
    if (isEndless) head['transfer-encoding'] = 'chunked';
    else head['content-length'] ??= String(content.length);
    if (field === 'length') head['content-length'] = pick(lengths, seed);
    if (field === 'hints') {
      await pump(socket, Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'), 1_000_000);
    }
    const lines = Object.entries(head).map(([name, it]) => `${name}: ${it}\r\n`);
    socket.write(`HTTP/1.1 ${code} ${STATUS_CODES[code] ?? 'x'}\r\n${lines.join('')}\r\n`);
    if (isEndless) {
      const piece = Buffer.from(textOf(value).slice(0, 65_536) || ' ');
      const chunk = [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')];
      await pump(socket, Buffer.concat(chunk), endlessBytes);
    } else if (field === 'cut' || field === 'unfinished') {
      socket.write(content.subarray(0, content.length / 2));
      endUnfinished(socket, field);
    } else {
      socket.write(content);
      if (field === 'length') endUnfinished(socket, 'unfinished');
    }
  }

  async #reply(socket: Socket, message: Buffer): Promise<void> {
    this.#requests += 1;
    const honest = this.#honest;
    if (!('raw' in honest)) return;
    const answer = honest.raw(message);
    const { field, value } = this.#spoil ?? { field: '', value: '' };
    const seed = seedOf(value);
    if (field === '' || (this.#requests === 1 && seed % 2 === 1)) {
      socket.write(answer);
    } else if (field === 'bytes') {
      // The head of the honest answer, and other content.
      socket.write(Buffer.concat([answer.subarray(0, seed % 9), Buffer.from(textOf(value))]));
      endUnfinished(socket, 'unfinished');
    } else if (field === 'repeat' || field === 'endless') {
      const piece = field === 'repeat' ? answer : Buffer.alloc(65_536, seed);
      if (field === 'endless') socket.write(answer.subarray(0, answer.length / 2));
      await pump(socket, piece, endlessBytes).catch(() => {});
      endUnfinished(socket, 'unfinished');
    } else {
      socket.write(answer.subarray(0, answer.length / 2));
      endUnfinished(socket, field);
    }
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port; // it listens on a port
}

/** Returns a number that depends on a value. */
function seedOf(value: unknown): number {
  const text = textOf(value ?? null);
  return text.length + text.charCodeAt(0);
}

function pick<T>(items: readonly T[], seed: number): T {
  const item = items[seed % items.length];
  if (item === undefined) throw new Error('nothing to pick');
  return item;
}

function bytesOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : jsonOf(body ?? null));
}

/** Returns a value as one line of a head. */
function lineOf(value: unknown): string {
  return textOf(value)
    .slice(0, 12_000)
    .replaceAll(/[^\x20-\x7e]/g, '?');
}

/** Writes a piece again and again, until the other side closes the connection. */
async function pump(socket: Socket, piece: Buffer, maxBytes: number): Promise<void> {
  const block = Buffer.concat(Array(Math.ceil(65_536 / piece.length)).fill(piece));
  const closed = new AbortController();
  socket.once('close', () => closed.abort());
  for (let sent = 0; sent < maxBytes && !socket.destroyed; sent += block.length) {
    if (!socket.write(block)) await once(socket, 'drain', { signal: closed.signal });
  }
}

function endUnfinished(socket: Socket, field: string): void {
  if (field === 'cut') socket.destroySoon();
  else setTimeout(() => socket.destroy(), unfinishedMs).unref();
}

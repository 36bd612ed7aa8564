/**
 * The thread of the spoiling server. For each request, it asks the main thread for the honest
 * answer, and spoils it.
 */

import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, STATUS_CODES } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { parentPort } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';
import { withField } from './schemas.ts';
import type {
  HonestAnswer,
  HttpAnswer,
  Instruction,
  Question,
  Report,
  ServerCounts,
  Spoil,
} from './spoiling-server.ts';
import { jsonOf, textOf } from './values.ts';

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

class SpoilingThread {
  readonly #http: Server;
  readonly #raw: Server;
  readonly #elsewhere: Server;
  readonly #sockets = new Set<Socket>();
  /** Questions that the main thread has not answered yet. */
  readonly #questions = new Map<number, (answer: HonestAnswer | undefined) => void>();
  #lastQuestion = 0;
  #spoil: Spoil | undefined;
  #requests = 0;
  #bytes = 0;
  #strays = 0;

  constructor() {
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

  async start(): Promise<void> {
    for (const server of [this.#http, this.#raw, this.#elsewhere]) {
      await once(server.listen(0, '127.0.0.1'), 'listening');
    }
    parentPort?.on('message', (instruction: Instruction) => void this.#follow(instruction));
    report({ kind: 'listening', port: portOf(this.#http), rawPort: portOf(this.#raw) });
  }

  async #follow(instruction: Instruction): Promise<void> {
    if (instruction.kind === 'spoil') {
      this.#spoil = instruction.spoil;
    } else if (instruction.kind === 'answer') {
      this.#questions.get(instruction.id)?.(instruction.answer);
      this.#questions.delete(instruction.id);
    } else {
      report({ kind: 'counts', counts: await this.#take() });
    }
  }

  /** Asks the main thread for the honest answer. The spoil of the case arrives before it. */
  #ask(question: Question): Promise<HonestAnswer | undefined> {
    const { promise, resolve } = Promise.withResolvers<HonestAnswer | undefined>();
    this.#lastQuestion += 1;
    this.#questions.set(this.#lastQuestion, resolve);
    report({ kind: 'asked', id: this.#lastQuestion, question });
    return promise;
  }

  async #take(): Promise<ServerCounts> {
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
    const isFirst = this.#requests === 1;
    const { method = 'GET', url = '/', socket } = request;
    const answer = await this.#ask({ http: { method, path: url } });
    if (answer === undefined || !('http' in answer)) return;
    const spoil = this.#spoil;
    const isHonest = isFirst && seedOf(spoil?.value) % 2 === 1;
    const sent = this.#send(socket, answer.http, isHonest ? undefined : spoil, url);
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
    const isFirst = this.#requests === 1;
    const honest = await this.#ask({ raw: message });
    if (honest === undefined || !('raw' in honest)) return;
    const answer = Buffer.from(honest.raw);
    const { field, value } = this.#spoil ?? { field: '', value: '' };
    const seed = seedOf(value);
    if (field === '' || (isFirst && seed % 2 === 1)) {
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

function report(message: Report): void {
  parentPort?.postMessage(message);
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
  if (body instanceof Uint8Array) return Buffer.from(body);
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

await new SpoilingThread().start();

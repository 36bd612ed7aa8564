import { hash } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { Logger } from 'pino';
import type { MasterEvent } from '#master';
import { encodeWebsocketFrame, OPCODE_TEXT } from '#minion-protocol';
import { Budget, releaseAll, type SendQueue, tryTakeAll } from '#runtime';
import { SaltApiError } from './errors.ts';
import { jsonText } from './json-text.ts';
import { apiLimits } from './limits.ts';
import { streamError } from './stream-error.ts';

/**
 * Interval of keep-alive messages, in milliseconds. They keep proxies from closing a connection
 * without traffic.
 */
export const keepAliveMs = 30_000;

/** Format of the events in a stream. */
export interface EventFormat {
  /**
   * Encodes events as complete messages. If the result is empty, the reader receives nothing for
   * these events.
   */
  readonly encode: (events: readonly MasterEvent[]) => readonly Uint8Array[];
  /** Message that is sent when there are no events, to keep the connection open. */
  readonly keepAlive: Uint8Array;
}

export interface EventWriterOptions {
  readonly form: EventFormat;
  readonly flushTimer: Pick<FlushTimer, 'next'>;
  readonly log: Pick<Logger, 'warn'>;
}

/**
 * Writes events until there are no more, or until the reader disconnects or is too slow. Then ends
 * the stream.
 */
export async function writeEvents(
  batches: AsyncIterable<readonly MasterEvent[]>,
  queue: SendQueue,
  { form: { encode, keepAlive: lifeSign }, flushTimer: pace, log }: EventWriterOptions,
): Promise<void> {
  const timer = setInterval(() => {
    if (queue.waitingBytes === 0) queue.push(lifeSign);
  }, keepAliveMs);
  timer.unref();
  try {
    for await (const events of batches) {
      for (const bytes of encode(events)) if (!queue.push(bytes)) return;
      await pace.next();
    }
    queue.end();
  } catch (err) {
    endWithError(err, { queue, log, encode });
  } finally {
    clearInterval(timer);
  }
}

/** Ends a stream with an event that contains the code of an error, and logs the error. */
export function endWithError(
  err: unknown,
  {
    queue,
    log,
    encode,
  }: Pick<EventFormat, 'encode'> &
    Pick<EventWriterOptions, 'log'> & { readonly queue: Pick<SendQueue, 'end' | 'push'> },
): void {
  log.warn({ err }, 'closed an event stream of an HTTP client because of an error');
  for (const bytes of encode([streamError(err)])) queue.push(bytes);
  queue.end();
}

/** Function that encodes one event. */
type Encode = (event: MasterEvent) => Buffer;

/** A sequence of consecutive events and their encoded form. */
interface EncodedRun {
  readonly events: readonly MasterEvent[];
  readonly chunks: readonly Buffer[];
}

/**
 * Maximum size of messages that are joined before they are written, in bytes. Joining larger ones
 * would cost memory for a second copy.
 */
const smallBytes = 8192;

/**
 * Cache of encoded events, and of encoded sequences of events. An event or sequence is encoded once
 * for all readers.
 */
class EncodedEventCache {
  readonly #encode: Encode;
  readonly #single = new WeakMap<MasterEvent, Buffer>();
  /**
   * Encoded sequences of events. The key is the first event of the sequence. If several sequences
   * begin with the same event, only the one that was encoded last is stored.
   */
  readonly #runs = new WeakMap<MasterEvent, EncodedRun>();

  constructor(encode: Encode) {
    this.#encode = encode;
  }

  of(events: readonly MasterEvent[]): readonly Buffer[] {
    const [first] = events;
    if (first === undefined) return [];
    if (events.length === 1) return [this.#one(first)];
    const known = this.#runs.get(first);
    if (known !== undefined && isSame(known.events, events)) return known.chunks;
    const chunks = joinSmall(events.map((event) => this.#one(event)));
    this.#runs.set(first, { events, chunks });
    return chunks;
  }

  #one(event: MasterEvent): Buffer {
    const known = this.#single.get(event);
    if (known !== undefined) return known;
    const bytes = this.#encode(event);
    this.#single.set(event, bytes);
    return bytes;
  }
}

/** Encodes events for streams. The encoded form is shared by all readers. */
export class EventEncoder {
  readonly #serverSent = new EncodedEventCache(serverSent);
  readonly #frames = new EncodedEventCache((event) => encodeTextFrame(`data: ${json(event)}\n\n`));
  readonly #framesWithId = new EncodedEventCache((event) =>
    encodeTextFrame(`data: ${jsonWithId(event)}\n\n`),
  );

  /** Encodes events as server-sent events. */
  serverSent(events: readonly MasterEvent[]): readonly Buffer[] {
    return this.#serverSent.of(events);
  }

  /**
   * Encodes each event as one WebSocket frame.
   * @param hasId - whether the JSON contains the event's id
   */
  frames(events: readonly MasterEvent[], hasId: boolean): readonly Buffer[] {
    return (hasId ? this.#framesWithId : this.#frames).of(events);
  }
}

/** Joins neighbouring small pieces of a stream, so that fewer writes are needed. */
function joinSmall(pieces: readonly Buffer[]): Buffer[] {
  const joined: Buffer[] = [];
  let small: Buffer[] = [];
  const join = (): void => {
    if (small.length > 0) joined.push(Buffer.concat(small));
    small = [];
  };
  for (const piece of pieces) {
    if (piece.byteLength <= smallBytes) small.push(piece);
    else {
      join();
      joined.push(piece);
    }
  }
  join();
  return joined;
}

/** Encodes a WebSocket frame with text. */
export function encodeTextFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat(encodeWebsocketFrame(OPCODE_TEXT, payload));
}

/**
 * Encodes one server-sent event. The line `id:` comes after the data. A reader that disconnects
 * between these lines therefore receives the event again when it reconnects.
 */
function serverSent(event: MasterEvent): Buffer {
  const tag = event.tag.replace(/[\r\n]/g, ' ');
  const id = event.id === undefined ? '' : `id: ${event.id}\n`;
  return Buffer.from(`tag: ${tag}\ndata: ${json(event)}\n${id}\n`);
}

/** Encodes `{"tag": …, "data": {…}}` on one line. */
function json({ tag, data }: MasterEvent): string {
  return jsonText({ tag, data });
}

function jsonWithId({ tag, data, id }: MasterEvent): string {
  return jsonText({ tag, data, id: id ?? null });
}

function isSame(a: readonly MasterEvent[], b: readonly MasterEvent[]): boolean {
  return a === b || (a.length === b.length && a.every((event, index) => event === b[index]));
}

/**
 * Determines when streams are written. All streams are written at the same moments. Events that
 * arrive between two moments are written together, and are encoded once for all readers of the same
 * events.
 */
export class FlushTimer {
  readonly #milliseconds: number;
  #next: Promise<void> | undefined;

  /** @param milliseconds - time between two writes to the streams */
  constructor(milliseconds: number) {
    this.#milliseconds = milliseconds;
  }

  /** Resolves at the next moment for writing. All waiting streams get the same moment. */
  next(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setTimeout(() => {
        this.#next = undefined;
        resolve();
      }, this.#milliseconds);
    });
    return this.#next;
  }
}

/**
 * Begins a stream by sending the head of the response. After that, the caller writes to `reply.raw`
 * itself.
 */
export function sendStreamHead(reply: FastifyReply, headers: OutgoingHttpHeaders): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.writeHead(200, headers);
}

/** Maximum number of streams of one connection. */
const maxOfConnection = apiLimits.connectionStreams.perOwner ?? Infinity;

/**
 * Token and user of an event stream. The limits on open streams apply to each token and to each
 * user.
 */
export interface StreamOwner {
  /** Token of the log-in. */
  readonly token: string;
  /** Name of the user. It is the same for all log-ins of the user. */
  readonly user: string;
}

/**
 * Limits the number of open event streams, in total, per user and per log-in [THREATS A-18]. A
 * quarter of the total is reserved for users who have no open stream.
 */
export class StreamLimiter {
  readonly #ofTokens: Budget;
  readonly #ofUsers: Budget;
  /** Number of open streams of each connection. */
  readonly #connections = new WeakMap<object, number>();

  constructor(total: number, perToken: number) {
    const reserved = Math.floor(total / 4);
    this.#ofTokens = new Budget(apiLimits.streams, { perOwner: perToken });
    const perOwner = Math.ceil(total / 2);
    this.#ofUsers = new Budget(apiLimits.userStreams, { total, perOwner, reserved });
  }

  /** Number of open streams. */
  get open(): number {
    return this.#ofUsers.total;
  }

  /**
   * Registers a stream.
   * @returns a function to call once when the stream ends, or `undefined` if a limit is reached
   */
  tryEnter({ token, user }: StreamOwner): (() => void) | undefined {
    const owner = hash('sha256', token);
    const parts = [
      { budget: this.#ofTokens, owner, amount: 1 },
      { budget: this.#ofUsers, owner: user, amount: 1 },
    ];
    return tryTakeAll(parts) === undefined ? () => releaseAll(parts) : undefined;
  }

  /**
   * Registers a stream like {@link tryEnter}. A connection may have only one stream, because
   * responses to later requests on the connection would wait until this stream ends.
   * @param connection - connection over which the stream is sent
   * @throws SaltApiError ERR_HTTP_STREAMS
   */
  enter(owner: StreamOwner, connection: object): () => void {
    if (this.#openOf(connection) >= maxOfConnection) {
      throw new SaltApiError(
        'ERR_HTTP_STREAMS',
        'the connection already has an event stream; use one connection for each stream',
      );
    }
    const leave = this.tryEnter(owner);
    if (leave !== undefined) {
      this.#connections.set(connection, this.#openOf(connection) + 1);
      return () => {
        this.#connections.set(connection, this.#openOf(connection) - 1);
        leave();
      };
    }
    throw new SaltApiError(
      'ERR_HTTP_STREAMS',
      'too many event streams are open; close some, or retry later',
    );
  }

  #openOf(connection: object): number {
    return this.#connections.get(connection) ?? 0;
  }
}

import { createHash } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { Logger } from 'pino';
import type { MasterEvent } from '#master';
import { encodeWebsocketFrame, OPCODE_TEXT } from '#minion-protocol';
import { Budget, type SendQueue } from '#runtime';
import { SaltApiError } from './errors.ts';
import { jsonText } from './json-text.ts';

/** Milliseconds between signs of life: what lies between may close silent connections. */
const keepAliveMs = 30_000;

/** How events are written. */
export interface EventFormat {
  /** Whole messages; none: these events are not told. */
  readonly encode: (events: readonly MasterEvent[]) => readonly Uint8Array[];
  /** Written now and then. */
  readonly keepAlive: Uint8Array;
}

export interface EventWriterOptions {
  readonly form: EventFormat;
  readonly flushTimer: Pick<FlushTimer, 'next'>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Writes events until they end, or the reader has gone or is too slow; ends the stream then. */
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
    log.warn({ err }, 'a stream of events ended before its time');
    queue.cut();
  } finally {
    clearInterval(timer);
  }
}

/** Makes the bytes of an event. */
type Encode = (event: MasterEvent) => Buffer;

/** Some events in a row, and their bytes. */
interface EncodedRun {
  readonly events: readonly MasterEvent[];
  readonly chunks: readonly Buffer[];
}

/** Events up to this size are put together; larger ones would be there twice. */
const smallBytes = 8192;

/** Bytes of events, and of some in a row: made once, however many read them. */
class EncodedEventCache {
  readonly #encode: Encode;
  readonly #single = new WeakMap<MasterEvent, Buffer>();
  /** The latest run that begins with an event. */
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

/** Events as readers get them. */
export class EventEncoder {
  readonly #serverSent = new EncodedEventCache(serverSent);
  readonly #frames = new EncodedEventCache((event) => encodeTextFrame(`data: ${json(event)}\n\n`));
  readonly #framesWithId = new EncodedEventCache((event) =>
    encodeTextFrame(`data: ${jsonWithId(event)}\n\n`),
  );

  /** Server-sent events; scripts look at the line with the tag. */
  serverSent(events: readonly MasterEvent[]): readonly Buffer[] {
    return this.#serverSent.of(events);
  }

  /** A frame of WebSocket each. @param hasId whether its id is in its JSON */
  frames(events: readonly MasterEvent[], hasId: boolean): readonly Buffer[] {
    return (hasId ? this.#framesWithId : this.#frames).of(events);
  }
}

/** The same bytes in fewer pieces. */
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

/** A frame of WebSocket with text. */
export function encodeTextFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat(encodeWebsocketFrame(OPCODE_TEXT, payload));
}

/** `id:` stands behind the data, so that who stops in between reads the event again. */
function serverSent(event: MasterEvent): Buffer {
  const tag = event.tag.replace(/[\r\n]/g, ' ');
  const id = event.id === undefined ? '' : `id: ${event.id}\n`;
  return Buffer.from(`tag: ${tag}\ndata: ${json(event)}\n${id}\n`);
}

/** `{"tag": …, "data": {…}}` on one line. */
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
 * When streams write: at once after a silence, then at the same moments for all of them. What
 * happens between two moments is one write, and for all who read the same it is made once.
 */
export class FlushTimer {
  readonly #milliseconds: number;
  #next: Promise<void> | undefined;

  /** @param milliseconds between two moments */
  constructor(milliseconds: number) {
    this.#milliseconds = milliseconds;
  }

  /** The next moment; the same for all who wait for it. */
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

/** Begins a stream: the head goes out at once, and the reply is the caller's from here on. */
export function sendStreamHead(reply: FastifyReply, headers: OutgoingHttpHeaders): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.writeHead(200, headers);
}

/** Bounds the event streams that are open, in all and of one log-in [THREATS A-18]. */
export class StreamLimiter {
  readonly #places: Budget;

  constructor(total: number, perToken: number) {
    this.#places = new Budget({ total, perOwner: perToken });
  }

  /** Streams that are open. */
  get open(): number {
    return this.#places.total;
  }

  /** @returns to be called once, at the end; `undefined`: as many are open as may be */
  tryEnter(token: string): (() => void) | undefined {
    const owner = createHash('sha256').update(token).digest('hex');
    return this.#places.tryTake(owner) ? () => this.#places.release(owner) : undefined;
  }

  /** As {@link tryEnter}. @throws SaltApiError ERR_HTTP_STREAMS */
  enter(token: string): () => void {
    const leave = this.tryEnter(token);
    if (leave !== undefined) return leave;
    throw new SaltApiError('ERR_HTTP_STREAMS', 'too many event streams are open');
  }
}

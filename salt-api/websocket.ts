/** `/ws` and `/ws/<session token>`, which send events over WebSocket. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AuthenticationError, missedBySlowReader } from '#master';
import {
  encodeWebsocketClose,
  encodeWebsocketFrame,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
  WebsocketDecoder,
} from '#minion-protocol';
import type { SendQueue } from '#runtime';
import { linkSignals, TokenBuckets } from '#runtime';
import {
  type ApiContext,
  type Caller,
  requireSessionOf,
  streamOwnerOf,
  tokenExpirySignal,
  userOwner,
} from './context.ts';
import { SaltApiError } from './errors.ts';
import { eventsRequest, queryOf } from './event-request.ts';
import { type EventFormat, endWithError, writeEvents } from './event-stream.ts';
import { FormattedEvents } from './formatted-events.ts';
import { writeStates } from './formatted-stream.ts';
import { apiLimits } from './limits.ts';
import { sessionTokenOf } from './session-token.ts';

/** Maximum size of a message from a client, in bytes. Clients only send one short text. */
const maxMessageBytes = 4096;

/**
 * Number of bytes that may wait to be sent to a client. If more are waiting, the master stops
 * reading the messages of the client.
 */
const maxUnreadBytes = 65_536;

/** Status code of a close frame for a policy violation [RFC 6455]. */
const closePolicy = 1008;

/** Maximum time in which a client must report that it is ready, in milliseconds. */
const maxReadyMs = 10_000;

const ready = 'websocket client ready';
const received = 'server received message';

/** Accepts or rejects a connection that requests WebSocket. */
export async function acceptWebsocket(
  context: ApiContext,
  request: IncomingMessage,
  socket: Duplex,
  head: Uint8Array,
): Promise<void> {
  socket.on('error', () => socket.destroy());
  try {
    context.hostGuard(request);
    context.connections.begin(request);
    if (isOfPlugin(context, request, socket, head)) return;
    const caller = await requireSessionOf(
      context,
      tokenOf(context, request),
      request.socket.remoteAddress ?? '',
    );
    // The client may have disconnected while its token was checked.
    if (socket.destroyed) return;
    const leave = context.streams.enter(streamOwnerOf(caller), socket);
    socket.once('close', leave);
    new WebsocketStream(context, caller, request, socket).open(request, head);
  } catch (error) {
    const status = error instanceof SaltApiError ? error.status : 401;
    const text = `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
    // Destroy the socket in any case, because the time limits of the server no longer apply to it.
    socket.end(text, () => socket.destroy());
  }
}

/**
 * Passes a request to the plugin that serves the prefix of its path. Returns `false` if there is
 * none.
 */
function isOfPlugin(
  { options }: ApiContext,
  request: IncomingMessage,
  socket: Duplex,
  head: Uint8Array,
): boolean {
  const [path = ''] = (request.url ?? '').split('?');
  for (const plugin of options.plugins) {
    const prefix = `${options.rootPrefix}${plugin.prefix}`;
    if (plugin.upgrade === undefined || !path.startsWith(`${prefix}/`)) continue;
    plugin.upgrade(request, socket, Buffer.from(head), path.slice(prefix.length));
    return true;
  }
  return false;
}

/** Returns the session token in the path, or in the header or cookie. */
function tokenOf(
  { options }: ApiContext,
  { url = '', headers }: IncomingMessage,
): string | undefined {
  const [path = ''] = url.split('?');
  const own = path.startsWith(`${options.rootPrefix}/ws`)
    ? path.slice(options.rootPrefix.length)
    : '';
  const [, token] = /^\/ws(?:\/([^/]*))?\/?$/.exec(own) ?? [];
  if (own === '' || !/^\/ws(?:\/|$)/.test(own)) {
    throw new SaltApiError('ERR_HTTP_UNKNOWN', 'path not found');
  }
  return token === undefined || token === '' ? sessionTokenOf(headers) : token;
}

/** Event stream for one client. It sends nothing until the client reports that it is ready. */
class WebsocketStream {
  readonly #context: ApiContext;
  readonly #caller: Caller;
  readonly #socket: Duplex;
  readonly #request: { readonly headers: IncomingHttpHeaders; readonly query: URLSearchParams };
  readonly #decoder = new WebsocketDecoder(maxMessageBytes);
  readonly #messages = new TokenBuckets(apiLimits.websocketMessages);
  readonly #queue: SendQueue;
  /** Aborted when the client is ready or has disconnected. */
  readonly #readyOrGone = new AbortController();
  #isReady = false;
  #isOver = false;

  constructor(context: ApiContext, caller: Caller, request: IncomingMessage, socket: Duplex) {
    this.#request = { headers: request.headers, query: queryOf(request.url ?? '') };
    this.#context = context;
    this.#caller = caller;
    this.#socket = socket;
    this.#queue = context.sendPool.open(socket, () => this.#farewell());
  }

  open(request: IncomingMessage, head: Uint8Array): void {
    this.#take(headOf(request));
    this.#take(head);
    this.#socket.on('data', (chunk: Uint8Array) => this.#take(chunk));
    this.#socket.on('end', () => this.#queue.end());
    this.#socket.once('close', () => this.#readyOrGone.abort());
    this.#awaitReady().catch(() => this.#queue.destroy());
  }

  /**
   * Closes the connection if its client does not report in time that it is ready, or if the log-in
   * ends before the client is ready.
   */
  async #awaitReady(): Promise<void> {
    const { master, closing, options } = this.#context;
    const late = AbortSignal.timeout(Math.min(options.requestTimeoutMs, maxReadyMs));
    const expiry = tokenExpirySignal(this.#caller);
    const end = linkSignals(this.#readyOrGone.signal, closing, late, expiry);
    try {
      // The iteration ends when the token of the log-in ends.
      for await (const _ of master.logins.follow(this.#caller.token, end.signal));
    } catch (error) {
      if (!(error instanceof AuthenticationError)) throw error;
    } finally {
      end.unlink();
    }
    if (!this.#isReady) this.#finish(encodeWebsocketClose(closePolicy));
  }

  #take(chunk: Uint8Array): void {
    // Data that arrives after the end is not parsed.
    if (this.#isOver) return;
    for (const event of this.#decoder.push(chunk)) {
      if (isAnswered(event) && !this.#messages.tryTake('')) {
        this.#finish(encodeWebsocketClose(closePolicy));
        break;
      }
      if (event.type === 'upgrade') this.#queue.push(event.response);
      else if (event.type === 'ping') this.#send(OPCODE_PONG, event.payload);
      else if (event.type === 'close') this.#finish(event.response);
      else if (event.type === 'breach') this.#finish(event.farewell);
      else this.#receive(Buffer.from(event.body).toString('utf8'));
    }
    this.#holdBack().catch(() => this.#queue.destroy());
  }

  /**
   * If more than {@link maxUnreadBytes} bytes wait to be sent to the client, stops reading the
   * client's messages until all waiting bytes are sent.
   */
  async #holdBack(): Promise<void> {
    if (this.#queue.waitingBytes <= maxUnreadBytes) return;
    this.#socket.pause();
    await this.#queue.flushed();
    this.#socket.resume();
  }

  #finish(last: Uint8Array): void {
    this.#isOver = true;
    this.#queue.push(last);
    this.#queue.end();
  }

  #receive(text: string): void {
    if (text !== ready || this.#isReady) {
      this.#confirm();
      return;
    }
    this.#isReady = true;
    this.#readyOrGone.abort();
    this.#sendEvents().catch((error: unknown) => this.#fail(error));
  }

  async #sendEvents(): Promise<void> {
    const gone = new AbortController();
    this.#socket.once('close', () => gone.abort());
    const { closing } = this.#context;
    const end = linkSignals(gone.signal, closing, tokenExpirySignal(this.#caller)).signal;
    const { headers, query } = this.#request;
    const asked = eventsRequest(query, headers);
    const events = await this.#caller.user.events.subscribeBatches(asked, end);
    // From this moment on, the client misses no event.
    this.#confirm();
    const keepAlive = frame(OPCODE_PING, Buffer.alloc(0));
    const { flushTimer, log, formattedTexts, statePace: pace } = this.#context;
    if (query.has('format_events')) {
      const state = new FormattedEvents(formattedTexts);
      const owner = userOwner(this.#caller);
      const encode = this.#encoder();
      const options = { state, keepAlive, encode, flushTimer, owner, pace, log };
      await writeStates(events, this.#queue, options);
      return;
    }
    const form = { encode: this.#encoder(), keepAlive };
    await writeEvents(events, this.#queue, { form, flushTimer, log });
  }

  #encoder(): EventFormat['encode'] {
    const { eventEncoder: eventTexts } = this.#context;
    const { query } = this.#request;
    // Clients receive the ids of events only if they request them. Without ids, the format is
    // exactly Salt's.
    const hasId = query.has('last_event_id');
    return (events) => eventTexts.frames(events, hasId);
  }

  #fail(err: unknown): void {
    const { log } = this.#context;
    this.#isOver = true;
    endWithError(err, { queue: this.#queue, log, encode: this.#encoder() });
  }

  #farewell(): readonly Uint8Array[] {
    const { query } = this.#request;
    if (!this.#isReady) return [];
    return this.#context.eventEncoder.frames([missedBySlowReader()], query.has('last_event_id'));
  }

  #confirm(): void {
    this.#send(OPCODE_TEXT, Buffer.from(received));
  }

  #send(opcode: number, payload: Uint8Array): void {
    this.#queue.push(frame(opcode, payload));
  }
}

function isAnswered({ type }: ReturnType<WebsocketDecoder['push']>[number]): boolean {
  return type === 'message' || type === 'ping';
}

function frame(opcode: number, payload: Uint8Array): Uint8Array {
  return Buffer.concat(encodeWebsocketFrame(opcode, payload));
}

/** Returns the original text of a request's head, for the decoder of the WebSocket handshake. */
function headOf({
  method = 'GET',
  url = '/',
  httpVersion,
  rawHeaders,
}: IncomingMessage): Uint8Array {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  }
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}

/** One side of an open connection between a site and its centre, after the handshake. */

import type { Static, TSchema } from 'typebox';
import type { RawData, WebSocket } from 'ws';
import type { WireValue } from '#minion-protocol';
import { errorMessage, LimitExceeded, LinkedList, type ListNode, TokenBuckets } from '#runtime';
import { EdgeError, type EdgeErrorCode } from '../errors.ts';
import { edgeLimits } from '../limits.ts';
import { decodeFrame, encodeFrame, type Frame, maxFrameBytes, maxParamsBytes } from './frames.ts';
import {
  type LinkCaller,
  type LinkClass,
  type LinkHandler,
  type LinkMessage,
  linkClasses,
  maxEarlyRequests,
} from './link.ts';

/** Status codes of WebSocket close frames. */
export const closeCodes = { malformed: 4400, refused: 4403, replaced: 4409, busy: 4429 } as const;

/**
 * Maximum number of unanswered requests of one class, such as `alarm` or `order`. In addition, the
 * other side limits those of all classes together to {@link edgeLimits.openRequests}.
 */
const openRequestsPerClass = 6;

/** Handlers of requests, by name of the message. */
export class LinkHandlers<From> {
  readonly #sender: 'site' | 'centre';
  readonly #rows = new Map<string, HandledMessage<From>>();

  /** @param sender - side that sends the requests */
  constructor(sender: 'site' | 'centre') {
    this.#sender = sender;
  }

  /** Registers the handler of a kind of request. */
  add<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    handler: LinkHandler<P, R, From>,
  ): void {
    if (message.sender !== this.#sender || this.#rows.has(message.name)) {
      throw new TypeError(
        `cannot add a handler for the message ${message.name}: it already has a handler, or this side only sends the message`,
      );
    }
    this.#rows.set(message.name, {
      class: message.class,
      isEarly: message.isEarly === true,
      maxBytes: message.maxBytes ?? maxFrameBytes,
      run: async (params, from) => {
        if (!message.paramsCheck.Check(params)) throw refusedParams(message.name);
        // MessagePack can encode every value that matches the schema of a reply.
        return (await handler(params as Static<P>, from)) as WireValue;
      },
    });
  }

  find(name: string): HandledMessage<From> | undefined {
    return this.#rows.get(name);
  }
}

/** Request that was received. */
export type RequestFrame = Extract<Frame, { kind: 'request' }>;

/** Kind of request with its handler. */
export interface HandledMessage<From> {
  readonly class: LinkClass;
  readonly isEarly: boolean;
  readonly maxBytes: number;
  run(params: WireValue, from: From): Promise<WireValue>;
}

/** Frame that waits to be sent. */
interface WaitingFrame extends ListNode<WaitingFrame> {
  readonly bytes: Uint8Array;
  readonly call: OpenCall | undefined;
  /** Called when the operating system has accepted the frame. */
  readonly onSent?: () => void;
}

interface OpenCall {
  readonly id: number;
  readonly class: LinkClass;
  isSent: boolean;
  readonly settle: (result: WireValue | EdgeError) => void;
}

export interface LinkPeerOptions<From> {
  readonly socket: WebSocket;
  readonly handlers: LinkHandlers<From>;
  /** Identity of the other side. The handlers of its requests receive this value. */
  readonly from: From;
  /**
   * Counts a received request as open. Returns a function that ends the count, or `undefined` if
   * the other side has too many open requests.
   * @param bytes - size of the request
   */
  readonly open: (bytes: number) => (() => void) | undefined;
  readonly onEnd: (reason: EdgeError) => void;
  readonly onUnexpected: (error: unknown, name: string) => void;
}

export class LinkPeer<From> implements LinkCaller {
  readonly #options: LinkPeerOptions<From>;
  readonly #requests = new Map<LinkClass, LinkedList<WaitingFrame>>();
  readonly #replies = new Map<LinkClass, LinkedList<WaitingFrame>>();
  readonly #calls = new Map<number, OpenCall>();
  readonly #openByClass = new Map<LinkClass, number>();
  readonly #frames = new TokenBuckets(edgeLimits.frames);
  readonly #heartbeats = new TokenBuckets(edgeLimits.heartbeats);
  #nextId = maxEarlyRequests;
  #isSending = false;
  /** Functions that end the counts of the requests whose replies are not sent yet. */
  readonly #unsent = new Set<() => void>();
  #waitingReplyBytes = 0;
  #isAnsweringHeartbeat = false;
  #ended: EdgeError | undefined;
  /** Time at which the last message was received, by the clock of `performance.now()`. */
  #receivedAt = performance.now();

  constructor(options: LinkPeerOptions<From>) {
    this.#options = options;
    for (const each of linkClasses) {
      this.#requests.set(each, new LinkedList());
      this.#replies.set(each, new LinkedList());
    }
    const { socket } = options;
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    socket.on('ping', (payload) => this.#answerHeartbeat(payload));
    socket.on('pong', () => {
      this.#receivedAt = performance.now();
    });
    socket.on('close', (code, reason) => this.#end(lostBecause(code, reason)));
    // The event 'close' follows.
    socket.on('error', () => {});
  }

  /** Time since the last message of the other side, in milliseconds. */
  get silentMs(): number {
    return performance.now() - this.#receivedAt;
  }

  /** Whether this side still waits for the reply to a request. */
  get isWaiting(): boolean {
    return [...this.#openByClass.values()].some((count) => count > 0);
  }

  /**
   * Processes a message that arrived during the handshake, before this object listened to the
   * socket.
   */
  accept(message: Buffer): void {
    this.#receive(message, true);
  }

  /** Whether the connection has ended. */
  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Sends a heartbeat, which the other side answers. */
  ping(): void {
    if (this.#ended === undefined) this.#options.socket.ping();
  }

  /** Ends the connection. Calls without a reply fail with ERR_SITE_LINK. */
  end(code: number, reason: EdgeError): void {
    const { socket } = this.#options;
    socket.close(code, reason.code);
    // Close the socket now. Otherwise it would wait up to 30 seconds for the close frame of the
    // other side.
    setTimeout(() => socket.terminate(), 1000).unref();
    this.#end(reason);
  }

  async call<P extends TSchema, R extends TSchema>(
    message: LinkMessage<P, R>,
    params: Static<P>,
    signal?: AbortSignal,
  ): Promise<Static<R>> {
    if (this.#ended !== undefined) throw lost();
    signal?.throwIfAborted();
    const { perOwner = 0 } = edgeLimits.waitingCalls;
    if (this.#calls.size >= perOwner) throw new LimitExceeded(edgeLimits.waitingCalls, perOwner);
    const id = this.#nextId;
    this.#nextId += 1;
    // MessagePack can encode every value that matches the schema of the parameters.
    const frame: Frame = { kind: 'request', id, name: message.name, params: params as WireValue };
    const bytes = encodeFrame(frame);
    const max = message.maxBytes ?? maxParamsBytes;
    if (bytes.length > max + 256) {
      throw new EdgeError('ERR_SITE_MESSAGE', `${message.name}: too large: ${bytes.length} bytes`);
    }
    return replyOf(message, await this.#exchange(id, message.class, bytes, signal));
  }

  /**
   * Waits for the reply to an early request, which the site sent together with its first message
   * (hello).
   * @param id - id of the request
   */
  async early<P extends TSchema, R extends TSchema>(
    id: number,
    message: LinkMessage<P, R>,
  ): Promise<Static<R>> {
    const result = await new Promise<WireValue>((resolve, reject) => {
      if (this.#ended !== undefined) {
        reject(lost());
        return;
      }
      const call: OpenCall = {
        id,
        class: message.class,
        isSent: true,
        settle: (value) => {
          this.#calls.delete(id);
          this.#openByClass.set(message.class, this.#openOf(message.class) - 1);
          if (value instanceof EdgeError) reject(value);
          else resolve(value);
          this.#send();
        },
      };
      this.#calls.set(id, call);
      this.#openByClass.set(message.class, this.#openOf(message.class) + 1);
    });
    return replyOf(message, result);
  }

  #exchange(
    id: number,
    linkClass: LinkClass,
    bytes: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<WireValue> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        forget();
        reject(signal?.reason);
      };
      const forget = (): void => {
        signal?.removeEventListener('abort', abort);
        this.#calls.delete(id);
        if (call.isSent) this.#openByClass.set(linkClass, this.#openOf(linkClass) - 1);
        else this.#requests.get(linkClass)?.remove(node);
      };
      const call: OpenCall = {
        id,
        class: linkClass,
        isSent: false,
        settle: (value) => {
          forget();
          if (value instanceof EdgeError) reject(value);
          else resolve(value);
          this.#send();
        },
      };
      const node: WaitingFrame = { bytes, call, previous: undefined, next: undefined };
      this.#calls.set(id, call);
      this.#requests.get(linkClass)?.append(node);
      signal?.addEventListener('abort', abort, { once: true });
      this.#send();
    });
  }

  #openOf(linkClass: LinkClass): number {
    return this.#openByClass.get(linkClass) ?? 0;
  }

  /**
   * Sends the next frame. The following frame is chosen after the operating system has accepted
   * this frame, so that urgent frames wait for at most one frame.
   */
  #send(): void {
    if (this.#isSending || this.#ended !== undefined) return;
    const next = this.#takeNext();
    if (next === undefined) return;
    this.#isSending = true;
    this.#options.socket.send(next.bytes, (error) => {
      this.#isSending = false;
      next.onSent?.();
      if (error === undefined || error === null) this.#send();
    });
  }

  #takeNext(): WaitingFrame | undefined {
    for (const each of linkClasses) {
      const reply = this.#replies.get(each);
      const waiting = reply?.first;
      if (waiting !== undefined) {
        reply?.remove(waiting);
        return waiting;
      }
      const requests = this.#requests.get(each);
      const request = requests?.first;
      if (request?.call === undefined || this.#openOf(each) >= openRequestsPerClass) continue;
      requests?.remove(request);
      request.call.isSent = true;
      this.#openByClass.set(each, this.#openOf(each) + 1);
      return request;
    }
    return undefined;
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#ended !== undefined) return;
    this.#receivedAt = performance.now();
    this.#slowDown();
    if (!isBinary || !Buffer.isBuffer(data)) this.#breach('a message is not binary');
    else this.#process(data);
  }

  #process(data: Buffer): void {
    let frame: Frame;
    try {
      frame = decodeFrame(data);
    } catch (error) {
      this.#breach(errorMessage(error));
      return;
    }
    if (frame.kind === 'request') {
      this.#serve(frame, data.length);
      return;
    }
    const call = this.#calls.get(frame.id);
    // The call may have been aborted.
    if (call?.isSent !== true) return;
    if (frame.kind === 'reply') call.settle(frame.value);
    else call.settle(new EdgeError(frame.code, frame.message));
  }

  /** Pauses the socket until the rate limit permits the next message. */
  #slowDown(): void {
    const waitMs = this.#frames.take('');
    const { socket } = this.#options;
    if (waitMs === 0 || socket.isPaused) return;
    socket.pause();
    setTimeout(() => socket.resume(), waitMs).unref();
  }

  #serve(request: RequestFrame, bytes: number): void {
    const close = this.#options.open(bytes);
    if (close === undefined) {
      this.#breach('too many requests are open');
      return;
    }
    // `#answer` never rejects, because it sends failures to the other side.
    void this.#answer(request, bytes, close);
  }

  /**
   * Answers a request. The request counts as open until its reply is sent, or the connection and
   * the handler have ended.
   */
  async #answer(request: RequestFrame, bytes: number, close: () => void): Promise<void> {
    const { from, handlers, onUnexpected } = this.#options;
    const handled = handlers.find(request.name);
    const reply = await answerRequest(request, bytes, handled, from, onUnexpected);
    if (this.#ended !== undefined) {
      close();
      return;
    }
    this.#unsent.add(close);
    this.#waitingReplyBytes += reply.length;
    if (this.#waitingReplyBytes > (edgeLimits.waitingReplyBytes.perOwner ?? 0)) {
      this.#breach('too many replies are not read');
      return;
    }
    const onSent = (): void => {
      this.#unsent.delete(close);
      close();
      this.#waitingReplyBytes -= reply.length;
    };
    const waiting = { bytes: reply, call: undefined, onSent, previous: undefined, next: undefined };
    this.#replies.get(handled?.class ?? 'fact')?.append(waiting);
    this.#send();
  }

  #answerHeartbeat(payload: Buffer): void {
    this.#receivedAt = performance.now();
    if (!this.#heartbeats.tryTake('')) {
      this.#breach('too many heartbeats');
      return;
    }
    // A side that does not read could fill the memory with answers. One answer is enough for all
    // the heartbeats that arrive before it is sent.
    if (this.#isAnsweringHeartbeat) return;
    this.#isAnsweringHeartbeat = true;
    this.#options.socket.pong(payload, undefined, () => {
      this.#isAnsweringHeartbeat = false;
    });
  }

  #breach(reason: string): void {
    this.end(closeCodes.malformed, failure(reason));
  }

  #end(reason: EdgeError): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    for (const call of [...this.#calls.values()]) call.settle(lost());
    for (const close of this.#unsent) close();
    this.#options.onEnd(reason);
  }
}

/**
 * Calls the handler of a request. Returns the encoded reply or failure.
 * @param bytes - size of the request
 */
export async function answerRequest<From>(
  { id, name, params }: RequestFrame,
  bytes: number,
  handled: HandledMessage<From> | undefined,
  from: From,
  onUnexpected: (error: unknown, name: string) => void,
): Promise<Buffer> {
  try {
    if (handled === undefined) throw failure(`${name}: unknown message`);
    if (bytes > handled.maxBytes + 256) throw failure(`${name}: too large: ${bytes} bytes`);
    return encodeFrame({ kind: 'reply', id, value: await handled.run(params, from) });
  } catch (error) {
    if (!(error instanceof EdgeError)) onUnexpected(error, name);
    const { code, message } = reportOf(error);
    return encodeFrame({ kind: 'failure', id, code, message });
  }
}

/**
 * Returns a received reply if it matches its schema.
 * @throws EdgeError ERR_SITE_MESSAGE if it does not
 */
function replyOf<P extends TSchema, R extends TSchema>(
  message: LinkMessage<P, R>,
  value: WireValue,
): Static<R> {
  if (message.replyCheck.Check(value)) return value as Static<R>;
  throw new EdgeError('ERR_SITE_MESSAGE', `${message.name}: the reply is malformed`);
}

function reportOf(error: unknown): { readonly code: EdgeErrorCode; readonly message: string } {
  if (error instanceof EdgeError) return error;
  // Do not send other errors, because they may contain internal information.
  return { code: 'ERR_SITE_LINK', message: 'the other side could not process the request; retry' };
}

function refusedParams(name: string): EdgeError {
  return failure(`${name}: the parameters do not match the schema`);
}

function failure(text: string): EdgeError {
  return new EdgeError('ERR_SITE_MESSAGE', text);
}

function lost(): EdgeError {
  return new EdgeError('ERR_SITE_LINK', 'the connection between the site and its centre was lost');
}

/**
 * Returns the reason for the end of a connection, as the close frame of the other side states it.
 */
function lostBecause(code: number, reason: Uint8Array): EdgeError {
  const text = Buffer.from(reason).toString('latin1');
  if (code === closeCodes.refused) {
    return new EdgeError(
      'ERR_SITE_REFUSED',
      'the centre refused this site; check its state there with saltbridge site list',
    );
  }
  if (code === closeCodes.malformed) {
    return failure(`the other side ended the connection: ${text}`);
  }
  const why =
    code === closeCodes.replaced ? ': the site has opened another connection' : ` (${code})`;
  return new EdgeError('ERR_SITE_LINK', `the connection ended${why}`);
}

/** One peer over a byte stream, for either port of any transport: backpressure and deadlines. */

import type { Socket } from 'node:net';
import type { ConcurrencyLimiter, GuardedConnection } from '../../runtime/index.ts';
import type { Peer, RequestHandler, RequestSlot } from './transport.ts';

// The requests of one connection, whatever the transport: bounded, and each answered once. One that
// gets no answer ends its connection.

/** What the request port of a transport is served with. */
export interface RequestService {
  readonly handler: RequestHandler;
  /** Salt's name of the transport. */
  readonly transport: string;
  /** The real publish port that belongs to this request port. */
  readonly publishPort: () => number;
  /** Requests being answered at the same time, for one connection. */
  readonly maxInFlight: number;
  /** Bytes of the requests being answered; a single one may be larger. */
  readonly maxBytesInFlight: number;
  /** Shared by all connections. */
  readonly limiter: ConcurrencyLimiter;
}

/** How answers go back. `Route` is what a transport needs to address one. */
export interface AnswerForm<Route> {
  readonly encode: (route: Route, answer: Uint8Array) => EncodedMessage;
  /** Whether answers leave in the order of the requests, or as they are ready. */
  readonly isOrdered: boolean;
}

interface WaitingRequest<Route> {
  readonly route: Route;
  readonly body: Uint8Array;
}

interface PendingAnswer<Route> extends WaitingRequest<Route> {
  answer: Uint8Array | undefined;
}

/** Hands requests to the handler, side by side, and its answers to the connection. */
export class RequestQueue<Route> {
  readonly #connection: StreamConnection;
  readonly #service: RequestService;
  readonly #form: AnswerForm<Route>;
  readonly #peer: Peer;
  #waiting: WaitingRequest<Route>[] = [];
  #pending: PendingAnswer<Route>[] = [];
  #pendingBytes = 0;
  #unanswered = 0;
  #isFinishing = false;

  constructor(connection: StreamConnection, service: RequestService, form: AnswerForm<Route>) {
    this.#connection = connection;
    this.#service = service;
    this.#form = form;
    this.#peer = peerOf(connection, service);
  }

  /** Takes a request; it is answered when its turn comes. */
  take(route: Route, body: Uint8Array): void {
    this.#connection.guarded.requestDone();
    this.#waiting.push({ route, body });
    this.startRequests();
  }

  /** Goes on where the connection's queue was full. */
  startRequests(): void {
    while (!this.#isFull() && this.#waiting.length > 0) {
      if (!this.#service.limiter.tryAcquire(this)) break;
      const request = this.#waiting.shift();
      if (request === undefined) break;
      const pending = { ...request, answer: undefined };
      this.#pending.push(pending);
      this.#pendingBytes += pending.body.length;
      this.#answer(pending);
    }
    this.#connection.pauseReading(this.#isFull() || this.#waiting.length > 0);
  }

  onWritten(): void {
    // Also without a request waiting: a large answer has stopped the reading of the next one.
    this.startRequests();
  }

  onClosed(): void {
    this.#service.limiter.cancel(this);
    this.#waiting = [];
    this.#pending = [];
  }

  finish(): void {
    this.#isFinishing = true;
    this.#service.limiter.cancel(this);
    this.#waiting = [];
    this.#endIfIdle();
  }

  #isFull(): boolean {
    return (
      this.#pending.length >= this.#service.maxInFlight ||
      this.#pendingBytes >= this.#service.maxBytesInFlight ||
      this.#connection.queue.isClogged
    );
  }

  #answer(pending: PendingAnswer<Route>): void {
    const turn = new LimiterSlot(this.#service.limiter);
    let answer: Uint8Array | Promise<Uint8Array>;
    try {
      answer = this.#service.handler(pending.body, this.#peer, turn);
    } catch {
      this.#leaveUnanswered(turn);
      return;
    }
    if (answer instanceof Promise) void this.#answerLater(pending, answer, turn);
    else this.#settle(pending, answer, turn);
  }

  async #answerLater(
    pending: PendingAnswer<Route>,
    answer: Promise<Uint8Array>,
    turn: RequestSlot,
  ): Promise<void> {
    let bytes: Uint8Array;
    try {
      bytes = await answer;
    } catch {
      this.#leaveUnanswered(turn);
      return;
    }
    this.#settle(pending, bytes, turn);
    this.startRequests();
  }

  #settle(pending: PendingAnswer<Route>, answer: Uint8Array, turn: RequestSlot): void {
    pending.answer = answer;
    this.#sendAnswers();
    turn.release();
    this.#endIfIdle();
  }

  #leaveUnanswered(turn: RequestSlot): void {
    turn.release();
    // To the peer it is as if the master had gone; other requests are served until then.
    this.#connection.guarded.leaveUnanswered();
    this.#unanswered += 1;
    this.#endIfIdle();
  }

  #sendAnswers(): void {
    const { isOrdered, encode } = this.#form;
    for (let index = 0; index < this.#pending.length; ) {
      const pending = this.#pending[index];
      if (pending?.answer === undefined) {
        if (isOrdered) return;
        index += 1;
        continue;
      }
      this.#pending.splice(index, 1);
      this.#pendingBytes -= pending.body.length;
      this.#connection.send(encode(pending.route, pending.answer));
    }
  }

  #endIfIdle(): void {
    const isIdle = this.#pending.length === this.#unanswered;
    if (this.#isFinishing && isIdle) this.#connection.endWhenWritten();
  }
}

class LimiterSlot implements RequestSlot {
  #turns: ConcurrencyLimiter | undefined;

  constructor(turns: ConcurrencyLimiter) {
    this.#turns = turns;
  }

  release(): void {
    const turns = this.#turns;
    this.#turns = undefined;
    turns?.release();
  }
}

/** The sender of what comes over a connection. */
export function peerOf(
  { guarded }: StreamConnection,
  { transport, publishPort }: Pick<RequestService, 'transport' | 'publishPort'>,
): Peer {
  return {
    address: guarded.address,
    transport,
    publishPort: publishPort(),
    identify: (minionId) => guarded.identify(minionId),
  };
}

// What waits to be written to one socket. Everything queued before its {@link WriteScheduler} goes out
// in one write; at most one write of 256 KiB is under way, so that a slow reader shows as one that
// makes progress, and one that does not read at all as one that makes none.

const BATCH_BYTES = 256 * 1024;
/** Up to here copying chunks together is cheaper than writing them one by one. */
const JOIN_BELOW_BYTES = 64 * 1024;
/** With more than this waiting, nothing more should be read from the peer. */
const HIGH_WATER_BYTES = 256 * 1024;

/** One message in chunks, ready for the wire. May be shared between queues. */
export interface EncodedMessage {
  readonly chunks: readonly Uint8Array[];
  /** Sum of the chunks. */
  readonly bytes: number;
}

export function toEncodedMessage(chunks: readonly Uint8Array[]): EncodedMessage {
  return { chunks, bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}

/** What all queues of a listener share. */
export interface ListenerDeps {
  /** Milliseconds, never going back. */
  readonly now: () => number;
  readonly writeScheduler: WriteScheduler;
}

/** Whose queue it is. */
interface WriteQueueOwner {
  /** @param stalledSince since when bytes wait without any being taken; `undefined`: nothing waits */
  onProgress(stalledSince: number | undefined): void;
}

interface Batch {
  readonly pieces: Uint8Array[];
  bytes: number;
  messages: number;
}

class WriteQueue implements ScheduledWriter {
  /** Bytes waiting, those of the write under way included. */
  bytes = 0;
  /** Messages waiting, those of the write under way included. */
  messages = 0;
  readonly #socket: Socket;
  readonly #parts: ListenerDeps;
  readonly #owner: WriteQueueOwner;
  #waiting: EncodedMessage[] = [];
  #head = 0;
  /** Position in the head message: chunk, and byte of that chunk. */
  #chunk = 0;
  #offset = 0;
  #isWriting = false;
  #isScheduled = false;

  constructor(socket: Socket, parts: ListenerDeps, owner: WriteQueueOwner) {
    this.#socket = socket;
    this.#parts = parts;
    this.#owner = owner;
  }

  /** Whether the peer reads so slowly that nothing more should be read from it. */
  get isClogged(): boolean {
    return this.bytes > HIGH_WATER_BYTES;
  }

  push(message: EncodedMessage): void {
    if (this.bytes === 0) this.#owner.onProgress(this.#parts.now());
    this.#waiting.push(message);
    this.bytes += message.bytes;
    this.messages += 1;
    if (this.#isWriting || this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.writeScheduler.add(this);
  }

  /** Its round has come. */
  write(): void {
    this.#isScheduled = false;
    this.#write();
  }

  #write(): void {
    if (this.#isWriting || this.messages === 0 || this.#socket.destroyed) return;
    const batch = this.#takeBatch();
    this.#isWriting = true;
    writeAll(this.#socket, batch, (error) => {
      this.#isWriting = false;
      // The socket's own error and close events tell the connection.
      if (error) return;
      this.bytes -= batch.bytes;
      this.messages -= batch.messages;
      this.#owner.onProgress(this.messages > 0 ? this.#parts.now() : undefined);
      this.#write();
    });
  }

  #takeBatch(): Batch {
    const batch: Batch = { pieces: [], bytes: 0, messages: 0 };
    for (let message = this.#waiting[this.#head]; message !== undefined; ) {
      if (!this.#takeFrom(message, batch)) break;
      this.#head += 1;
      message = this.#waiting[this.#head];
    }
    this.#dropTaken();
    return batch;
  }

  /** Takes what fits of the head message; true if that was the rest of it. */
  #takeFrom(message: EncodedMessage, batch: Batch): boolean {
    for (let chunk = message.chunks[this.#chunk]; chunk !== undefined; ) {
      const room = BATCH_BYTES - batch.bytes;
      if (room === 0) return false;
      const rest = chunk.length - this.#offset;
      const size = Math.min(rest, room);
      batch.pieces.push(
        size === chunk.length ? chunk : chunk.subarray(this.#offset, this.#offset + size),
      );
      batch.bytes += size;
      this.#offset += size;
      if (size < rest) return false;
      this.#offset = 0;
      this.#chunk += 1;
      chunk = message.chunks[this.#chunk];
    }
    this.#chunk = 0;
    batch.messages += 1;
    return true;
  }

  /** Keeps the array short without moving it for each batch. */
  #dropTaken(): void {
    if (this.#head < this.#waiting.length && this.#head < 64) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}

function writeAll(socket: Socket, batch: Batch, done: (error?: Error | null) => void): void {
  const [only, ...more] = batch.pieces;
  if (only !== undefined && more.length === 0) {
    socket.write(only, done);
    return;
  }
  if (batch.bytes < JOIN_BELOW_BYTES) {
    socket.write(Buffer.concat(batch.pieces), done);
    return;
  }
  socket.cork();
  const last = batch.pieces.length - 1;
  for (const [index, piece] of batch.pieces.entries()) {
    if (index < last) socket.write(piece);
    else socket.write(piece, done);
  }
  socket.uncork();
}

/** What every decoder may tell. */
type BreachEvent = {
  readonly type: 'breach';
  /** Counted. */
  readonly reason: string;
  /** Told to the peer, as far as its socket takes it at once. */
  readonly farewell?: Uint8Array;
};

/** The reading half of a protocol, without I/O. */
interface StreamDecoder<Event> {
  /** The events that `chunk` completes, in order. After a breach: none. */
  push(chunk: Uint8Array): readonly (Event | BreachEvent)[];
  /** Memory held for a message that has not arrived completely, bytes. */
  readonly heldBytes: number;
  /** Whether a message has begun and not ended. */
  readonly isMidMessage: boolean;
}

/** What is done with a peer. */
export interface StreamSession<Event> {
  onEvent(event: Event): void;
  /** Part of what was queued has been written. */
  onWritten(): void;
  onClosed(): void;
  /** Finish what is under way, then {@link StreamConnection.endWhenWritten}. */
  finish(): void;
}

/** How a port speaks with its peers. */
export interface StreamProtocol<Event> {
  /** Said before anything is read. */
  readonly greeting?: Uint8Array;
  createDecoder(): StreamDecoder<Event>;
  openSession(connection: StreamConnection): StreamSession<Event>;
}

/** What a session may do with its connection. */
export interface StreamConnection {
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  send(message: EncodedMessage): void;
  /** Stops or goes on reading, because of what the session has under way. */
  pauseReading(isHeldBack: boolean): void;
  /** States what the session keeps for this peer, bytes; counted like unfinished messages. */
  setExtraBytes(bytes: number): void;
  refuse(reason: string): void;
  /** Reads nothing more, writes out what is queued, then closes. */
  endWhenWritten(): void;
}

/** What a listener does with a connection. */
export interface OpenConnection {
  onClosed(): void;
  finish(): void;
}

export function openConnection<Event extends { readonly type: string }>(
  socket: Socket,
  guarded: GuardedConnection,
  parts: ListenerDeps,
  protocol: StreamProtocol<Event>,
): OpenConnection {
  return new Connection(socket, guarded, parts, protocol);
}

class Connection<Event extends { readonly type: string }>
  implements StreamConnection, OpenConnection, WriteQueueOwner
{
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  readonly #socket: Socket;
  readonly #now: () => number;
  readonly #decoder: StreamDecoder<Event>;
  readonly #session: StreamSession<Event>;
  #extraBytes = 0;
  #isHeldBack = false;
  #isEnding = false;

  constructor(
    socket: Socket,
    guarded: GuardedConnection,
    parts: ListenerDeps,
    protocol: StreamProtocol<Event>,
  ) {
    this.guarded = guarded;
    this.#socket = socket;
    this.#now = parts.now;
    this.#decoder = protocol.createDecoder();
    this.queue = new WriteQueue(socket, parts, this);
    this.#session = protocol.openSession(this);
    socket.on('data', (chunk) => this.#onData(chunk));
    if (protocol.greeting !== undefined) this.send(singleChunkMessage(protocol.greeting));
  }

  onClosed(): void {
    this.#session.onClosed();
  }

  finish(): void {
    this.#session.finish();
  }

  send(message: EncodedMessage): void {
    this.queue.push(message);
    if (this.queue.isClogged) this.#adjustReading();
  }

  pauseReading(isHeldBack: boolean): void {
    if (this.#isHeldBack === isHeldBack) return;
    this.#isHeldBack = isHeldBack;
    this.#adjustReading();
  }

  setExtraBytes(bytes: number): void {
    this.#extraBytes = bytes;
    this.guarded.setHeldBytes(this.#decoder.heldBytes + bytes);
  }

  refuse(reason: string): void {
    this.guarded.refuse(reason);
  }

  endWhenWritten(): void {
    this.#isEnding = true;
    this.#adjustReading();
    this.#endIfWritten();
  }

  #onData(chunk: Uint8Array): void {
    for (const event of this.#decoder.push(chunk)) {
      if (this.#socket.destroyed || this.#isEnding) return;
      // What comes next is a new message; but a PING may come in the middle of one.
      if (event.type !== 'ping') this.guarded.receivingSince(undefined);
      if (isBreach(event)) this.#onBreach(event);
      else this.#session.onEvent(event);
    }
    if (this.#socket.destroyed) return;
    this.#watchMessage();
    this.guarded.setHeldBytes(this.#decoder.heldBytes + this.#extraBytes);
  }

  #onBreach({ reason, farewell }: BreachEvent): void {
    if (farewell !== undefined) this.#socket.write(farewell);
    this.refuse(reason);
  }

  #watchMessage(): void {
    if (!this.#decoder.isMidMessage || this.#socket.isPaused()) {
      this.guarded.receivingSince(undefined);
    } else if (this.guarded.messageSince === undefined) {
      this.guarded.receivingSince(this.#now());
    }
  }

  onProgress(stalledSince: number | undefined): void {
    this.guarded.stalledSince = stalledSince;
    this.#adjustReading();
    if (stalledSince === undefined || !this.queue.isClogged) this.#session.onWritten();
    this.#endIfWritten();
  }

  #adjustReading(): void {
    const isStopped = this.#isEnding || this.#isHeldBack || this.queue.isClogged;
    if (isStopped === this.#socket.isPaused()) return;
    if (isStopped) this.#socket.pause();
    else this.#socket.resume();
    // While we do not read, the peer's message cannot get on.
    this.#watchMessage();
  }

  #endIfWritten(): void {
    if (this.#isEnding && this.queue.messages === 0) this.#socket.destroySoon();
  }
}

function isBreach(event: { readonly type: string }): event is BreachEvent {
  return event.type === 'breach';
}

/** One message of one piece. */
export function singleChunkMessage(bytes: Uint8Array): EncodedMessage {
  return toEncodedMessage([bytes]);
}

/** Whoever has something to be written to a socket. */
export interface ScheduledWriter {
  write(): void;
}

/** Writers of one round: what a round leaves behind is gone before it is held for long. */
const writersPerTick = 256;

/**
 * When the sockets of a listener are written to: at the end of the turn of the event loop in which
 * something was queued, so that all of it goes out in one write. A publication to a large fleet
 * takes several turns, and who is served meanwhile waits for one of them, not for the fleet.
 */
export class WriteScheduler {
  #waiting: ScheduledWriter[] = [];
  #next = 0;

  /** @param writer is not waiting already */
  add(writer: ScheduledWriter): void {
    this.#waiting.push(writer);
    if (this.#waiting.length === 1) process.nextTick(() => this.#round());
  }

  #round(): void {
    const end = Math.min(this.#next + writersPerTick, this.#waiting.length);
    while (this.#next < end) {
      const writer = this.#waiting[this.#next];
      this.#next += 1;
      writer?.write();
    }
    if (this.#next < this.#waiting.length) {
      setImmediate(() => this.#round());
    } else {
      this.#waiting = [];
      this.#next = 0;
    }
  }
}

/** A transport over TCP ports: binds both, admits connections, keeps deadlines, closes. */

import type { Socket } from 'node:net';
import { ConcurrencyLimiter, type FileReloader } from '#runtime';
import {
  ConnectionGuard,
  type ConnectionOwner,
  type GuardedConnection,
  type GuardLimits,
  type PortRules,
  peerAddress,
} from './connection-guard.ts';
import { type BoundServer, type ListenOptions, listenOn } from './listening.ts';
import { RelayedConnections, type RelayPortsOptions } from './relayed-connections.ts';
import { type LoadedTls, listenSecurely, loadTls, renewTls, type TlsOptions } from './tls.ts';
import {
  type AnnouncementHandler,
  type BoundPorts,
  type MasterTransport,
  type OutgoingPublication,
  type Peer,
  type PublishOutcome,
  type RequestHandler,
  type RequestSlot,
  type SubscriberInfo,
  TransportError,
} from './transport.ts';

// One peer over a byte stream, for either port of any transport: backpressure and deadlines.

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
interface ListenerDeps {
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
interface OpenConnection {
  onClosed(): void;
  finish(): void;
}

function openConnection<Event extends { readonly type: string }>(
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

// How much may wait for one subscriber, whatever the transport.

export interface SubscriberQueueLimits {
  /** Salt's `pub_hwm`: messages that wait for one subscriber. Default 1000. */
  readonly maxQueuedMessages: number;
  /** Bytes that wait for one subscriber; a single message may be larger. Default 8 MiB. */
  readonly maxQueuedBytes: number;
}

export const DEFAULT_SUBSCRIBER_QUEUE_LIMITS: SubscriberQueueLimits = {
  maxQueuedMessages: 1000,
  maxQueuedBytes: 8 * 1024 * 1024,
};

/** Queues a message; false if the queue is full and this subscriber goes without. */
export function tryQueueMessage(
  connection: StreamConnection,
  message: EncodedMessage,
  { maxQueuedMessages, maxQueuedBytes }: SubscriberQueueLimits,
): boolean {
  const { queue } = connection;
  const isFull =
    queue.messages >= maxQueuedMessages ||
    (queue.messages > 0 && queue.bytes + message.bytes > maxQueuedBytes);
  if (!isFull) connection.send(message);
  return !isFull;
}

// Publications for subscribers that are expected, but not there yet.

/**
 * Holds publications for `holdMs` each, and sends them in their order to whoever subscribes in that
 * time. Bounded as the queue of one subscriber: the oldest go first.
 */
export class PublicationReplayBuffer<Subscriber> {
  readonly #bounds: SubscriberQueueLimits;
  readonly #send: (publication: OutgoingPublication, to: Subscriber) => void;
  readonly #held = new Set<OutgoingPublication>();
  /** The same as a list, which newcomers share. */
  #list: readonly OutgoingPublication[] | undefined;
  /** Those who have not been sent yet what was held when they came. */
  readonly #newcomers = new Map<Subscriber, readonly OutgoingPublication[]>();
  #bytes = 0;

  constructor(
    bounds: SubscriberQueueLimits,
    send: (publication: OutgoingPublication, to: Subscriber) => void,
  ) {
    this.#bounds = bounds;
    this.#send = send;
  }

  /** Takes note of a new subscriber, until {@link replay} or {@link removeSubscriber}. */
  addSubscriber(subscriber: Subscriber): void {
    if (this.#held.size === 0) return;
    this.#list ??= [...this.#held];
    this.#newcomers.set(subscriber, this.#list);
  }

  /** Sends a new subscriber what was held when it came, once. */
  replay(subscriber: Subscriber): void {
    const held = this.#newcomers.get(subscriber) ?? [];
    this.#newcomers.delete(subscriber);
    for (const publication of held) this.#send(publication, subscriber);
  }

  /** The same after a while, or before the next publication. */
  replayLater(subscriber: Subscriber, afterMs: number): void {
    if (!this.#newcomers.has(subscriber)) return;
    setTimeout(() => this.replay(subscriber), afterMs).unref();
  }

  /** A subscriber is gone. */
  removeSubscriber(subscriber: Subscriber): void {
    this.#newcomers.delete(subscriber);
  }

  /** To be called before a publication is sent: newcomers get older ones first. */
  add(publication: OutgoingPublication): void {
    for (const newcomer of this.#newcomers.keys()) this.replay(newcomer);
    const { envelope, replayMs: holdMs = 0 } = publication;
    if (holdMs === 0) return;
    this.#list = undefined;
    this.#held.add(publication);
    this.#bytes += envelope.length;
    setTimeout(() => this.#release(publication), holdMs).unref();
    const { maxQueuedMessages, maxQueuedBytes } = this.#bounds;
    for (const oldest of this.#held) {
      if (this.#held.size <= maxQueuedMessages && this.#bytes <= maxQueuedBytes) return;
      this.#release(oldest);
    }
  }

  #release(publication: OutgoingPublication): void {
    if (!this.#held.delete(publication)) return;
    this.#list = undefined;
    this.#bytes -= publication.envelope.length;
  }
}

// From a socket to the protocol spoken over it.

/** How peers of one port are spoken with. */
export interface PortProtocol extends PortRules {
  /** Whether the protocol has a handshake of its own; its session tells when it is done. */
  readonly hasHandshake: boolean;
  readonly open: (
    stream: Socket,
    guarded: GuardedConnection,
    parts: ListenerDeps,
  ) => OpenConnection;
}

/** A port that speaks `protocol`. */
export function createPortProtocol<Event extends { readonly type: string }>(
  properties: Omit<PortProtocol, 'open'>,
  protocol: StreamProtocol<Event>,
): PortProtocol {
  return {
    ...properties,
    open: (stream, guarded, parts) => openConnection(stream, guarded, parts, protocol),
  };
}

/** A socket in the guard's table; with TLS nothing of the protocol can come over it at first. */
class GuardedSocket implements ConnectionOwner {
  readonly #socket: Socket;
  #connection: OpenConnection | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /**
   * Speaks the port's protocol from here on.
   * @param stream the socket, or what TLS makes of it
   */
  open(port: PortProtocol, stream: Socket, guarded: GuardedConnection, parts: ListenerDeps): void {
    if (!port.hasHandshake) guarded.handshakeDone();
    this.#connection = port.open(stream, guarded, parts);
  }

  onEnd(): void {
    this.#socket.destroy();
    this.#connection?.onClosed();
  }

  finish(): void {
    if (this.#connection === undefined) this.#socket.destroy();
    else this.#connection.finish();
  }
}

/** Bounds that a listener puts on its peers, whatever the transport [THREATS N-02, N-03]. */
export interface ConnectionLimits extends GuardLimits {
  /** From connecting to the end of the handshake, milliseconds. Default 30,000. */
  readonly handshakeMs: number;
  /**
   * From connecting to the first complete request on the request port, milliseconds, and one
   * second more for each 64 KiB that arrived. Default 30,000. Does not bind known addresses: their
   * ZeroMQ sockets reconnect after a restart of the master and then wait until they have to ask.
   */
  readonly firstRequestMs: number;
  /**
   * From the first byte of a message to its last, milliseconds, and one second more for each
   * 64 KiB that arrived. Default 30,000.
   */
  readonly messageMs: number;
  /** A peer that reads none of what waits for it is disconnected after this, milliseconds. Default 60,000. */
  readonly stallMs: number;
  /**
   * From a request that gets no answer to the end of its connection, milliseconds. Default 5,000:
   * minions over TCP and WebSocket send again as soon as their connection ends, and at once they
   * would use up their three tries. Over ZeroMQ they wait as long by themselves.
   */
  readonly unansweredMs: number;
  /** One request, all its frames together, bytes. Default 16 MiB. */
  readonly maxMessageBytes: number;
  /** Unfinished messages and subscriptions of all connections, bytes. Default 128 MiB. */
  readonly maxHeldBytes: number;
  /** The same for one address that is not known, bytes. Default 32 MiB. */
  readonly maxHeldBytesPerAddress: number;
  /** Connections in all, on both ports. Default 65,536. */
  readonly maxConnections: number;
  /** Connections of one address. Default 65,536: a fleet may be behind one. */
  readonly maxConnectionsPerAddress: number;
  /**
   * Connections of one address that is not known which have not finished handshake and first
   * request; the oldest is closed for a new one. Default 1,000.
   */
  readonly maxNewConnectionsPerAddress: number;
  /** Addresses remembered as known; the one heard longest ago is forgotten. Default 65,536. */
  readonly maxKnownAddresses: number;
  /** Requests of one connection that are being answered; no more are read. Default 64. */
  readonly maxRequestsInFlight: number;
  /**
   * Requests of all connections that are worked on at the same time, those that wait for something
   * not counted; no more are read. Default 256: what is under way is memory that each collection
   * goes over, and more of it was no quicker.
   */
  readonly maxActiveRequests: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  handshakeMs: 30_000,
  firstRequestMs: 30_000,
  // protection: silent-for-ever
  messageMs: 30_000,
  stallMs: 60_000,
  unansweredMs: 5_000,
  maxMessageBytes: 16 * 1024 * 1024,
  maxHeldBytes: 128 * 1024 * 1024,
  maxHeldBytesPerAddress: 32 * 1024 * 1024,
  maxConnections: 65_536,
  maxConnectionsPerAddress: 65_536,
  maxNewConnectionsPerAddress: 1000,
  maxKnownAddresses: 65_536,
  maxRequestsInFlight: 64,
  maxActiveRequests: 256,
};

const DEFAULT_GRACE_MS = 5000;

/** What every listener over TCP ports needs to know; everything has a default. */
export interface ListenerOptions {
  /** Address to bind, Salt's `interface`. Default `0.0.0.0`. */
  readonly host?: string;
  /** Salt's `ret_port`; 0: any free one. Default 4506. */
  readonly requestPort?: number;
  /** Salt's `publish_port`; 0: any free one. Default 4505. */
  readonly publishPort?: number;
  /** Salt's `zmq_backlog`: connections that wait to be accepted. Default 1000. */
  readonly backlog?: number;
  /**
   * Salt's `tcp_keepalive_idle` in milliseconds; 0: the system's; `null`: no keep-alive. Default
   * 300,000.
   */
  readonly keepAliveIdleMs?: number | null;
  readonly limits?: Partial<ConnectionLimits>;
  /** Ports for relays; not with TLS. Default: none. */
  readonly relay?: RelayPortsOptions;
  /** How often deadlines are looked at, milliseconds. Default 1000. */
  readonly sweepIntervalMs?: number;
  /** Milliseconds since 1970, never going back. Default: the process's own clock. */
  readonly now?: () => number;
}

/** What makes a transport out of a listener. */
export interface ListenerDesign {
  /** Salt's name of the transport. */
  readonly name: string;
  readonly requests: (service: RequestService, limits: ConnectionLimits) => PortProtocol;
  /**
   * Absent: there is no publish port.
   * @param announce verifies what a minion says of itself on its publish connection
   */
  readonly publications?: (
    announce: AnnouncementHandler,
    publishPort: () => number,
    /** Silence before a subscriber is sent something that is no message, milliseconds. Default: any. */
    pingMs?: number,
  ) => PortProtocol;
  readonly publisher: {
    publish(publication: OutgoingPublication): PublishOutcome;
    subscribers(): readonly SubscriberInfo[];
    /** Ends what the publisher alone knows to be this minion's. */
    disconnect?(minionId: string): void;
  };
}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createListener(
  design: ListenerDesign,
  options: ListenerOptions,
  tls?: TlsOptions,
): MasterTransport {
  return new StreamListener(design, options, tls);
}

class StreamListener implements MasterTransport {
  readonly name: string;
  readonly #design: ListenerDesign;
  readonly #options: ListenerOptions;
  readonly #tls: TlsOptions | undefined;
  readonly #limits: ConnectionLimits;
  readonly #guard: ConnectionGuard;
  readonly #parts: ListenerDeps;
  #servers: BoundServer[] = [];
  #publishPort = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #certificate: FileReloader | undefined;
  #relayed: RelayedConnections | undefined;
  #closing: Promise<void> | undefined;

  constructor(design: ListenerDesign, options: ListenerOptions, tls: TlsOptions | undefined) {
    this.name = design.name;
    this.#design = design;
    this.#options = options;
    this.#tls = tls;
    this.#limits = { ...DEFAULT_CONNECTION_LIMITS, ...options.limits };
    this.#guard = new ConnectionGuard(this.#limits, options.now ?? steadyClock);
    this.#parts = { now: this.#guard.now, writeScheduler: new WriteScheduler() };
  }

  async listen(
    handler: RequestHandler,
    announce: AnnouncementHandler = async () => {},
  ): Promise<BoundPorts> {
    if (this.#closing !== undefined || this.#servers.length > 0) {
      throw new TransportError('ERR_CLOSED', 'a listener listens once');
    }
    try {
      return await this.#bindBoth(handler, announce);
    } catch (error) {
      await this.close(0);
      throw error;
    }
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    return this.#design.publisher.publish(publication);
  }

  disconnect(minionId: string): void {
    this.#guard.disconnect(minionId);
    this.#design.publisher.disconnect?.(minionId);
  }

  subscribers(): readonly SubscriberInfo[] {
    return this.#design.publisher.subscribers();
  }

  refusals(): Readonly<Record<string, number>> {
    return this.#guard.refusals();
  }

  async renewCertificate(): Promise<readonly string[]> {
    const isRenewed = await this.#certificate?.check();
    return isRenewed && this.#tls !== undefined ? [this.#tls.certFile] : [];
  }

  close(graceMs: number = DEFAULT_GRACE_MS): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  /** The publish port first: an answer on the other one may have to name it. */
  async #bindBoth(handler: RequestHandler, announce: AnnouncementHandler): Promise<BoundPorts> {
    const { requestPort = 4506, publishPort = 4505 } = this.#options;
    const limits = this.#limits;
    const knownPort = (): number => this.#publishPort;
    const tls = this.#tls === undefined ? undefined : loadTls(this.#tls);
    const publications = this.#design.publications?.(announce, knownPort);
    if (publications !== undefined) {
      this.#publishPort = (await this.#bind(publishPort, publications, tls)).port;
    }
    const service: RequestService = {
      handler,
      transport: this.name,
      publishPort: knownPort,
      maxInFlight: limits.maxRequestsInFlight,
      maxBytesInFlight: limits.maxMessageBytes,
      limiter: new ConcurrencyLimiter(limits.maxActiveRequests),
    };
    const answers = this.#design.requests(service, limits);
    const requests = await this.#bind(requestPort, answers, tls);
    const relay = await this.#bindRelay(answers, announce);
    if (tls !== undefined) this.#certificate = renewTls(tls, this.#servers);
    this.#sweeper = setInterval(() => this.#guard.sweep(), this.#options.sweepIntervalMs ?? 1000);
    this.#sweeper.unref();
    const own = { requestPort: requests.port, publishPort: this.#publishPort };
    return relay === undefined ? own : { ...own, relay };
  }

  async #bindRelay(
    requests: PortProtocol,
    announce: AnnouncementHandler,
  ): Promise<BoundPorts['relay']> {
    const { relay } = this.#options;
    if (relay === undefined) return undefined;
    const { pingMs = 15_000 } = relay;
    const publications = this.#design.publications?.(announce, () => this.#publishPort, pingMs);
    if (publications === undefined) return undefined;
    if (this.#tls !== undefined) {
      throw new TransportError('ERR_TLS', 'ports for relays are not served with TLS');
    }
    const relayed = new RelayedConnections(relay, (reason) => this.#guard.count(reason));
    this.#relayed = relayed;
    const bind = async (port: number, kind: PortProtocol): Promise<number> => {
      const bound = await listenOn(this.#addressOf(port, relay.host), (socket) =>
        relayed.take(socket, (address) => this.#admit(socket, kind, address)?.(socket)),
      );
      this.#servers.push(bound);
      return bound.port;
    };
    const publishPort = await bind(relay.publishPort, publications);
    return { publishPort, requestPort: await bind(relay.requestPort, requests) };
  }

  #addressOf(port: number, host: string | undefined): ListenOptions {
    const { host: own = '0.0.0.0', backlog = 1000, keepAliveIdleMs = 300_000 } = this.#options;
    return { host: host ?? own, port, backlog, keepAliveIdleMs };
  }

  async #bind(port: number, kind: PortProtocol, tls: LoadedTls | undefined): Promise<BoundServer> {
    const address = this.#addressOf(port, this.#options.host);
    const bound =
      tls === undefined
        ? await listenOn(address, (socket) => this.#admit(socket, kind)?.(socket))
        : await listenSecurely(address, tls, {
            onConnection: (socket) => this.#admit(socket, kind),
            onRefused: (reason) => this.#guard.count(reason),
          });
    this.#servers.push(bound);
    return bound;
  }

  /**
   * Takes a connection in.
   * @param address of record; default: the remote one
   * @returns what is to be called once bytes of the protocol can be exchanged; `undefined` when
   *   the connection was refused and has ended
   */
  #admit(
    socket: Socket,
    port: PortProtocol,
    address: string | undefined = peerAddress(socket),
  ): ((stream: Socket) => void) | undefined {
    if (address === undefined) {
      socket.destroy();
      return undefined;
    }
    const admitted = new GuardedSocket(socket);
    const guarded = this.#guard.admit(address, port, admitted);
    if (guarded === undefined) return undefined;
    endGuardedWithSocket(socket, guarded);
    return (stream) => {
      if (stream !== socket) endGuardedWithSocket(stream, guarded);
      admitted.open(port, stream, guarded, this.#parts);
    };
  }

  async #close(graceMs: number): Promise<void> {
    const closed = this.#servers.map(closeServer);
    this.#relayed?.close();
    this.#guard.finishAll();
    const grace = setTimeout(() => this.#guard.endAll(), graceMs);
    await Promise.all(closed);
    clearTimeout(grace);
    clearInterval(this.#sweeper);
    this.#certificate?.stop();
    this.#guard.endAll();
  }
}

/** What ends a connection from outside. A reset is an ordinary way to go; 'close' follows. */
function endGuardedWithSocket(socket: Socket, guarded: GuardedConnection): void {
  socket.on('error', ignore);
  socket.on('close', () => guarded.end());
}

function ignore(): void {
  // Told by 'close'.
}

/** Resolves when the port is free and the last connection is gone. */
function closeServer({ server }: BoundServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

function steadyClock(): number {
  return performance.timeOrigin + performance.now();
}

/** One peer over a byte stream, for either port of any transport: back-pressure and deadlines. */

import type { Socket } from 'node:net';
import type { GuardedConnection } from './connection-guard.ts';
import {
  type EncodedMessage,
  type ListenerDeps,
  toEncodedMessage,
  WriteQueue,
  type WriteQueueOwner,
} from './write-queue.ts';

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

/** State of a port's work with one peer. */
export interface StreamSession {
  /** Part of what was queued has been written. */
  onWritten?(): void;
  onClosed(): void;
  /**
   * Finishes what is under way, then calls {@link StreamConnection.endWhenWritten}. Without it, the
   * connection ends when its queue is written.
   */
  finish?(): void;
}

/** How a port speaks with its peers. */
export interface StreamProtocol<Event, Session extends StreamSession> {
  /** Sent before anything is read. */
  readonly greeting?: Uint8Array;
  createDecoder(): StreamDecoder<Event>;
  openSession(connection: StreamConnection): Session;
  onEvent(event: Event, session: Session, connection: StreamConnection): void;
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

/** A connection of which the port's protocol has begun. */
export class Connection<Event extends { readonly type: string }, Session extends StreamSession>
  implements StreamConnection, OpenConnection, WriteQueueOwner
{
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  readonly #socket: Socket;
  readonly #now: () => number;
  readonly #decoder: StreamDecoder<Event>;
  readonly #protocol: StreamProtocol<Event, Session>;
  readonly #session: Session;
  #extraBytes = 0;
  #isHeldBack = false;
  #isEnding = false;

  constructor(
    socket: Socket,
    guarded: GuardedConnection,
    parts: ListenerDeps,
    protocol: StreamProtocol<Event, Session>,
  ) {
    this.guarded = guarded;
    this.#socket = socket;
    this.#now = parts.now;
    this.#protocol = protocol;
    this.#decoder = protocol.createDecoder();
    this.queue = new WriteQueue(socket, parts, this);
    this.#session = protocol.openSession(this);
    socket.on('data', (chunk) => this.#onData(chunk));
    if (protocol.greeting !== undefined) this.send(toEncodedMessage([protocol.greeting]));
  }

  onClosed(): void {
    this.#session.onClosed();
  }

  finish(): void {
    if (this.#session.finish === undefined) this.endWhenWritten();
    else this.#session.finish();
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
      else this.#protocol.onEvent(event, this.#session, this);
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
    if (stalledSince === undefined || !this.queue.isClogged) this.#session.onWritten?.();
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

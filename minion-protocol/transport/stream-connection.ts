/**
 * Handles one connection over a byte stream: decodes its input, queues its output, and pauses
 * reading if the queue is too long. All transports over TCP use this module for the request port
 * and the publish port.
 */

import type { Socket } from 'node:net';
import type { MessageTurns, TurnTaker } from '#runtime';
import type { GuardedConnection } from './connection-guard.ts';
import {
  type EncodedMessage,
  type ListenerDeps,
  toEncodedMessage,
  WriteQueue,
  type WriteQueueOwner,
} from './write-queue.ts';

/** Event that a decoder returns for a protocol violation. */
type BreachEvent = {
  readonly type: 'breach';
  /** Kind of violation. A metric counts the violations of each kind. */
  readonly reason: string;
  /**
   * Bytes that inform the peer about the violation. They are sent only if the socket accepts them
   * immediately.
   */
  readonly farewell?: Uint8Array;
};

/** Decoder for the incoming bytes of a protocol. It does no I/O. */
interface StreamDecoder<Event> {
  /**
   * Returns the events that `chunk` completes, in order. After a protocol violation it returns
   * none.
   * @param maxEvents - number of events after which the decoder stops reading
   */
  push(chunk: Uint8Array, maxEvents: number): readonly (Event | BreachEvent)[];
  /** Number of bytes that the last call of `push` has read from its chunk. */
  readonly consumedBytes: number;
  /** Memory held for an incomplete message, in bytes. */
  readonly heldBytes: number;
  /** Whether a message is incomplete. */
  readonly isMidMessage: boolean;
}

/**
 * State that the protocol of a port keeps for one peer. Its methods are callbacks for events of the
 * connection.
 */
export interface StreamSession {
  /** Called when part of the queued bytes has been written. */
  onWritten?(): void;
  onClosed(): void;
  /**
   * Completes current requests, then calls {@link StreamConnection.endWhenWritten}. If absent, the
   * connection ends when its queue is written.
   */
  finish?(): void;
}

/** Protocol of one port: a decoder for each connection, and a session for each peer. */
export interface StreamProtocol<Event, Session extends StreamSession> {
  /** Bytes to send before anything is read. */
  readonly greeting?: Uint8Array;
  createDecoder(): StreamDecoder<Event>;
  openSession(connection: StreamConnection): Session;
  onEvent(event: Event, session: Session, connection: StreamConnection): void;
}

/** Operations that a session may use on its connection. */
export interface StreamConnection {
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  send(message: EncodedMessage): void;
  /**
   * Pauses or resumes reading. On a request port, reading pauses while a request waits, while the
   * requests in progress have reached a limit, or while too much output is queued.
   */
  pauseReading(isHeldBack: boolean): void;
  /**
   * Sets the number of bytes that the session stores for this peer, for example its subscriptions.
   * They count towards the same limits as incomplete messages.
   */
  setExtraBytes(bytes: number): void;
  /** Stops reading, writes the queued bytes, then closes the connection. */
  endWhenWritten(): void;
}

/** Operations of a connection that a listener uses. */
export interface OpenConnection {
  onClosed(): void;
  finish(): void;
}

/**
 * A connection on which the protocol of its port has started. With TLS, the protocol starts after
 * the TLS handshake.
 */
export class Connection<Event extends { readonly type: string }, Session extends StreamSession>
  implements StreamConnection, OpenConnection, WriteQueueOwner, TurnTaker
{
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  readonly #socket: Socket;
  readonly #parts: ListenerDeps;
  readonly #decoder: StreamDecoder<Event>;
  readonly #protocol: StreamProtocol<Event, Session>;
  readonly #session: Session;
  #extraBytes = 0;
  /** Received bytes that have not been passed to the decoder yet. */
  #unread: Uint8Array = noBytes;
  #isHeldBack = false;
  #isEnding = false;
  /** Whether the connection waits for its turn to decode received bytes. */
  #isWaiting = false;
  /**
   * Whether reading from the socket is paused, because received bytes are not decoded yet. This
   * happens if the last turn was too short for all received bytes. It also happens if another chunk
   * arrives while the connection waits for its turn.
   */
  #isAhead = false;
  #isTakingTurn = false;

  constructor(
    socket: Socket,
    guarded: GuardedConnection,
    parts: ListenerDeps,
    protocol: StreamProtocol<Event, Session>,
  ) {
    this.guarded = guarded;
    this.#socket = socket;
    this.#parts = parts;
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
    this.#countHeldBytes();
  }

  endWhenWritten(): void {
    this.#isEnding = true;
    this.#unread = noBytes;
    this.#adjustReading();
    this.#endIfWritten();
  }

  takeTurn(): void {
    this.#isWaiting = false;
    this.#isTakingTurn = true;
    const { turns, owner } = this.#turns();
    while (this.#mayRead()) {
      const allowance = turns.allowance(owner);
      if (allowance <= 0) break;
      turns.spend(owner, this.#read(allowance));
    }
    this.#isTakingTurn = false;
    if (this.#socket.destroyed) {
      this.#unread = noBytes;
      return;
    }
    this.#isAhead = this.#unread.length > 0;
    this.#adjustReading();
    this.#watchMessage();
    this.#countHeldBytes();
  }

  #onData(chunk: Uint8Array): void {
    this.#isAhead = this.#unread.length > 0;
    this.#unread = this.#isAhead ? Buffer.concat([this.#unread, chunk]) : chunk;
    const { turns, owner } = this.#turns();
    if (!this.#isWaiting && !turns.mustWait(owner)) {
      this.takeTurn();
      return;
    }
    this.#adjustReading();
    this.#countHeldBytes();
  }

  /** Whether unread bytes are left, and the session accepts bytes now. */
  #mayRead(): boolean {
    return this.#unread.length > 0 && !this.#isStopped() && !this.#socket.destroyed;
  }

  #waitForTurn(): void {
    if (this.#isWaiting || !this.#mayRead()) return;
    this.#isWaiting = true;
    const { turns, owner } = this.#turns();
    turns.wait(owner, this);
  }

  #turns(): { readonly turns: MessageTurns; readonly owner: string } {
    const { minions, strangers } = this.#parts.turns;
    const { firstMinion, limitKey } = this.guarded;
    return firstMinion === undefined
      ? { turns: strangers, owner: limitKey }
      : { turns: minions, owner: firstMinion };
  }

  /**
   * Decodes unread bytes, and handles the messages that they complete. Returns the number of
   * messages.
   */
  #read(maxMessages: number): number {
    const bytes = this.#unread;
    const events = this.#decoder.push(bytes, maxMessages);
    const { consumedBytes } = this.#decoder;
    this.#unread = consumedBytes === bytes.length ? noBytes : bytes.subarray(consumedBytes);
    for (const event of events) {
      if (this.#socket.destroyed || this.#isEnding) break;
      // The next bytes start a new message, because only a PING may arrive in the middle of a
      // message.
      if (event.type !== 'ping') this.guarded.receivingSince(undefined);
      if (isBreach(event)) this.#onBreach(event);
      else this.#protocol.onEvent(event, this.#session, this);
    }
    return events.length;
  }

  #countHeldBytes(): void {
    // A view keeps its whole buffer in memory.
    const unread = this.#unread.length === 0 ? 0 : this.#unread.buffer.byteLength;
    this.guarded.setHeldBytes(this.#decoder.heldBytes + this.#extraBytes + unread);
  }

  #onBreach({ reason, farewell }: BreachEvent): void {
    if (farewell !== undefined) this.#socket.write(farewell);
    this.guarded.refuse(reason);
  }

  #watchMessage(): void {
    if (!this.#decoder.isMidMessage || this.#isStopped()) {
      this.guarded.receivingSince(undefined);
    } else if (this.guarded.messageSince === undefined) {
      this.guarded.receivingSince(this.#parts.now());
    }
  }

  onProgress(stalledSince: number | undefined): void {
    this.guarded.stalledSince = stalledSince;
    this.#adjustReading();
    this.#session.onWritten?.();
    this.#endIfWritten();
  }

  /** Whether the session accepts no messages now. */
  #isStopped(): boolean {
    return this.#isEnding || this.#isHeldBack || this.queue.isClogged;
  }

  #adjustReading(): void {
    if (this.#isTakingTurn) return;
    this.#waitForTurn();
    const isPaused = this.#isStopped() || this.#isAhead;
    if (isPaused === this.#socket.isPaused()) return;
    if (isPaused) this.#socket.pause();
    else this.#socket.resume();
    // While reading is stopped, the peer cannot complete its message.
    this.#watchMessage();
  }

  #endIfWritten(): void {
    if (this.#isEnding && this.queue.messages === 0) this.#socket.destroySoon();
  }
}

const noBytes: Uint8Array = new Uint8Array(0);

function isBreach(event: { readonly type: string }): event is BreachEvent {
  return event.type === 'breach';
}

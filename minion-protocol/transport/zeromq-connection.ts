/** One ZeroMQ peer over TCP: handshake, PING, backpressure and deadlines, for either role. */
import type { Socket } from 'node:net';
import {
  encodeGreeting,
  encodePong,
  encodeReady,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpLimits,
  type ZmtpRole,
} from '../zmtp.ts';
import type { ConnectionGuard, GuardedConnection } from './connection-guard.ts';
import { type EncodedMessage, encoded, WriteQueue } from './write-queue.ts';

/** What the two roles do differently with a peer. */
export interface ZeromqSession {
  /** A message of the peer, whole and within the limits. */
  onMessage(frames: readonly Uint8Array[]): void;
  /** The peer wants a topic, or no longer. */
  onSubscription(topic: string, isWanted: boolean): void;
  /** Part of what was queued has been written. */
  onWritten(): void;
  onClosed(): void;
  /** Finish what is under way, then {@link ZeromqConnection.endWhenWritten}. */
  finish(): void;
}

export interface ZeromqConnectionOptions {
  readonly role: ZmtpRole;
  readonly limits: ZmtpLimits;
  readonly guard: ConnectionGuard;
  readonly openSession: (connection: ZeromqConnection) => ZeromqSession;
}

export class ZeromqConnection {
  readonly guarded: GuardedConnection;
  readonly queue: WriteQueue;
  readonly session: ZeromqSession;
  readonly #socket: Socket;
  readonly #options: ZeromqConnectionOptions;
  readonly #decoder: ZmtpDecoder;
  #extraBytes = 0;
  #isHeldBack = false;
  #isEnding = false;

  constructor(socket: Socket, guarded: GuardedConnection, options: ZeromqConnectionOptions) {
    this.guarded = guarded;
    this.#socket = socket;
    this.#options = options;
    this.#decoder = new ZmtpDecoder(options.role, options.limits);
    this.queue = new WriteQueue(socket, {
      now: options.guard.now,
      onProgress: (stalledSince) => this.#onProgress(stalledSince),
    });
    this.session = options.openSession(this);
    socket.on('data', (chunk) => this.#onData(chunk));
    // A reset is an ordinary way for a peer to go; 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => this.guarded.end());
    this.send(encoded([encodeGreeting()]));
  }

  send(message: EncodedMessage): void {
    this.queue.push(message);
    if (this.queue.isClogged) this.#adjustReading();
  }

  /** Stops or goes on reading, because of what the session has under way. */
  holdBack(isHeldBack: boolean): void {
    if (this.#isHeldBack === isHeldBack) return;
    this.#isHeldBack = isHeldBack;
    this.#adjustReading();
  }

  /** States what the session keeps for this peer, bytes; counted like unfinished messages. */
  keep(bytes: number): void {
    this.#extraBytes = bytes;
    this.guarded.hold(this.#decoder.heldBytes + bytes);
  }

  refuse(reason: string): void {
    this.guarded.refuse(reason);
  }

  /** Reads nothing more, writes out what is queued, then closes. */
  endWhenWritten(): void {
    this.#isEnding = true;
    this.#adjustReading();
    this.#endIfWritten();
  }

  #onData(chunk: Uint8Array): void {
    for (const event of this.#decoder.push(chunk)) {
      if (this.#socket.destroyed || this.#isEnding) return;
      this.#onEvent(event);
    }
    if (this.#socket.destroyed) return;
    this.#watchMessage();
    this.guarded.hold(this.#decoder.heldBytes + this.#extraBytes);
  }

  #onEvent(event: ZmtpEvent): void {
    // What comes next is a new message; but a PING may come in the middle of one.
    if (event.type !== 'ping') this.guarded.receivingSince(undefined);
    switch (event.type) {
      case 'greeting':
        this.send(encoded([encodeReady(this.#options.role)]));
        break;
      case 'ready':
        this.guarded.handshakeDone();
        break;
      case 'message':
        this.session.onMessage(event.frames);
        break;
      case 'ping':
        this.send(encoded([encodePong(event.context)]));
        break;
      case 'subscribe':
      case 'cancel':
        this.session.onSubscription(event.topic, event.type === 'subscribe');
        break;
      case 'breach':
        this.refuse(event.reason);
        break;
    }
  }

  #watchMessage(): void {
    if (!this.#decoder.isMidMessage || this.#socket.isPaused()) {
      this.guarded.receivingSince(undefined);
    } else if (this.guarded.messageSince === undefined) {
      this.guarded.receivingSince(this.#options.guard.now());
    }
  }

  #onProgress(stalledSince: number | undefined): void {
    this.guarded.stalledSince = stalledSince;
    this.#adjustReading();
    if (stalledSince === undefined || !this.queue.isClogged) this.session.onWritten();
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

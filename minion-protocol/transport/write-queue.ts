/** Messages that wait to be written to a socket, and the rounds in which sockets are written to. */

import type { Socket } from 'node:net';

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
export interface WriteQueueOwner {
  /** @param stalledSince since when bytes wait without any being taken; `undefined`: nothing waits */
  onProgress(stalledSince: number | undefined): void;
}

interface Batch {
  readonly pieces: Uint8Array[];
  bytes: number;
  messages: number;
}

export class WriteQueue implements ScheduledWriter {
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

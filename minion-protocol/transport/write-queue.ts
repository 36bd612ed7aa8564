/** Queues messages to be written to a socket, and schedules the writes of all sockets. */

import type { Socket } from 'node:net';
import type { ListenerTurns } from './listener-turns.ts';

const BATCH_BYTES = 256 * 1024;
/**
 * Size in bytes below which all chunks of a batch are copied into one buffer. One write is cheaper
 * than one for each chunk.
 */
const JOIN_BELOW_BYTES = 64 * 1024;
/** Number of queued bytes above which reading from the peer should stop. */
const HIGH_WATER_BYTES = 256 * 1024;
/** Approximate memory of a queued message in addition to its bytes. */
const MESSAGE_OVERHEAD_BYTES = 256;

/** One encoded message in chunks. Queues may share it. */
export interface EncodedMessage {
  readonly chunks: readonly Uint8Array[];
  /** Total size of the chunks, in bytes. */
  readonly bytes: number;
}

export function toEncodedMessage(chunks: readonly Uint8Array[]): EncodedMessage {
  return { chunks, bytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}

/** Clock, write scheduler and turns that all queues of a listener share. */
export interface ListenerDeps {
  /** Returns the current time, in milliseconds since 1970. The time never goes back. */
  readonly now: () => number;
  readonly writeScheduler: WriteScheduler;
  readonly turns: ListenerTurns;
}

/**
 * Owner of a write queue, for example a connection. The queue reports to it whether the peer reads.
 */
export interface WriteQueueOwner {
  /**
   * Called when output is added to the empty queue, and after each write.
   * @param stalledSince - time of this call, in milliseconds since 1970. If no further call comes,
   * the peer has not read since this time. `undefined` if no output is queued
   */
  onProgress(stalledSince: number | undefined): void;
}

interface Batch {
  readonly pieces: Uint8Array[];
  bytes: number;
  messages: number;
}

export class WriteQueue implements ScheduledWriter {
  /** Number of waiting bytes, including those of the current write. */
  bytes = 0;
  /** Number of waiting messages, including those of the current write. */
  messages = 0;
  readonly #socket: Socket;
  readonly #parts: ListenerDeps;
  readonly #owner: WriteQueueOwner;
  #waiting: EncodedMessage[] = [];
  #head = 0;
  /**
   * Index of the chunk that contains the next byte to write, in the first message. `#offset` is the
   * position of this byte in the chunk.
   */
  #chunk = 0;
  #offset = 0;
  #isWriting = false;
  #isScheduled = false;

  constructor(socket: Socket, parts: ListenerDeps, owner: WriteQueueOwner) {
    this.#socket = socket;
    this.#parts = parts;
    this.#owner = owner;
  }

  /** Whether the peer reads so slowly that reading from it should stop. */
  get isClogged(): boolean {
    return this.bytes + this.messages * MESSAGE_OVERHEAD_BYTES > HIGH_WATER_BYTES;
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

  /** Writes the queued messages. The scheduler calls it. */
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
      // The socket's own 'error' and 'close' events end the connection.
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

  /**
   * Adds as much of the first message to the batch as fits. Returns `true` if the whole message was
   * added.
   */
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

  /**
   * Removes the messages before `#head` from the array. Each removal moves all remaining messages.
   * Therefore removes them only if there are at least 64, or if no message remains.
   */
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

/** A queue with bytes to write to its socket. */
export interface ScheduledWriter {
  write(): void;
}

/** Maximum number of writers per round, so that the memory of a round is freed soon. */
const writersPerTick = 256;

/**
 * Schedules the writes of a listener's sockets. If several messages are queued for a socket in one
 * turn of the event loop, the scheduler writes them together at the end of the turn. To publish to
 * a large fleet, it needs several turns. Other requests are processed between these turns, so they
 * need not wait for the whole fleet.
 */
export class WriteScheduler {
  #waiting: ScheduledWriter[] = [];
  #next = 0;

  /**
   * Schedules a write.
   * @param writer - writer that is not scheduled yet
   */
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

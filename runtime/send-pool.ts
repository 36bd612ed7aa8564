import type { Writable } from 'node:stream';
import type { Limit } from './limits.ts';

/** Limits of a {@link SendPool}. */
export interface SendLimits {
  /**
   * Maximum size of a message, in bytes. All messages that wait for one reader may together have at
   * most this size plus {@link extraBytes}.
   */
  readonly messageBytes: number;
  /**
   * Maximum number of bytes that may wait for all readers together. A buffer that waits for several
   * readers counts once. Default: `total` of the pool's limit.
   */
  readonly totalBytes?: number;
  /**
   * Maximum number of bytes that may wait for one reader, not counting the largest of the waiting
   * messages. Default: 1 MiB.
   */
  readonly extraBytes?: number;
  /**
   * Time after which a connection is destroyed if a sender waits for it in {@link
   * SendQueue.flushed} and its reader receives nothing, in milliseconds. Default: no such limit.
   */
  readonly stallMs?: number | undefined;
}

/** Limits of a {@link SendPool}, with default values filled in. */
type CompleteLimits = Required<Omit<SendLimits, 'stallMs'>> & Pick<SendLimits, 'stallMs'>;

/**
 * Maximum number of bytes passed to the system in one write. The maximum limits the memory for the
 * copies that TLS makes of each write.
 */
const sliceBytes = 65_536;

/**
 * Time that a reader has to receive the remaining output after `end` or `cut`, in milliseconds.
 * Then its connection is destroyed.
 */
const lingerMs = 30_000;

/**
 * Limits the output that waits for slow readers. Each reader has a limit, and all readers share a
 * total limit.
 */
export class SendPool {
  readonly #limits: CompleteLimits;
  readonly #queues = new Set<SendQueue>();
  /** For each waiting chunk, the number of reader queues that contain it. */
  readonly #holders = new Map<Uint8Array, number>();
  #heldBytes = 0;

  constructor(limit: Limit, limits: SendLimits) {
    this.#limits = { extraBytes: 1_048_576, totalBytes: limit.total ?? Infinity, ...limits };
  }

  /** Total size of the waiting chunks in bytes. A chunk in several queues is counted once. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Creates the queue of a reader. Other code must not write to `out` any more.
   * @param farewell - returns the last messages for a reader that is disconnected because it is too
   * slow
   */
  open(out: Writable, farewell: () => readonly Uint8Array[] = () => []): SendQueue {
    const queue = new SendQueue(out, farewell, {
      limits: this.#limits,
      retain: (chunk) => this.#retain(chunk),
      release: (chunk) => this.#release(chunk),
      closed: () => this.#queues.delete(queue),
    });
    this.#queues.add(queue);
    return queue;
  }

  #retain(chunk: Uint8Array): void {
    const holders = this.#holders.get(chunk) ?? 0;
    this.#holders.set(chunk, holders + 1);
    if (holders > 0) return;
    this.#heldBytes += chunk.byteLength;
    if (this.#heldBytes > this.#limits.totalBytes) this.#relieve();
  }

  #release(chunk: Uint8Array): void {
    const holders = this.#holders.get(chunk) ?? 0;
    if (holders > 1) this.#holders.set(chunk, holders - 1);
    else if (this.#holders.delete(chunk)) this.#heldBytes -= chunk.byteLength;
  }

  /**
   * Disconnects readers until the total is below the limit, starting with the reader that has the
   * most waiting output.
   */
  #relieve(): void {
    const isOver = (): boolean => this.#heldBytes > this.#limits.totalBytes;
    const slowest = [...this.#queues].sort((a, b) => b.waitingBytes - a.waitingBytes);
    for (const queue of slowest) {
      if (isOver()) queue.cut();
      // Even after `cut`, the queue contains the message that is partially written.
      if (isOver()) queue.destroy();
    }
  }
}

/** Functions of the pool that a queue uses. */
interface SendPoolHandle {
  readonly limits: CompleteLimits;
  readonly retain: (chunk: Uint8Array) => void;
  readonly release: (chunk: Uint8Array) => void;
  readonly closed: () => void;
}

/** Outgoing messages of one connection. Messages are written in order and never split. */
export class SendQueue {
  readonly #out: Writable;
  readonly #farewell: () => readonly Uint8Array[];
  readonly #pool: SendPoolHandle;
  #chunks: Uint8Array[] = [];
  /**
   * Index of the chunk that is being written. `#written` is the number of its bytes that were
   * written.
   */
  #at = 0;
  #written = 0;
  #waitingBytes = 0;
  #isWriting = false;
  #state: 'open' | 'ending' | 'closed' = 'open';
  #linger: NodeJS.Timeout | undefined;
  #waiters: (() => void)[] = [];
  /** Destroys the stream if its reader receives nothing while senders wait. */
  #stall: NodeJS.Timeout | undefined;

  constructor(out: Writable, farewell: () => readonly Uint8Array[], pool: SendPoolHandle) {
    this.#out = out;
    this.#farewell = farewell;
    this.#pool = pool;
    out.once('close', () => this.#close());
    if (out.destroyed) this.#state = 'closed';
  }

  /** Number of bytes that have not been passed to the system yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Queues complete messages. A buffer that several readers get is stored once.
   * @returns `false` if the queue accepts no more messages, because the reader was too slow or has
   * disconnected
   */
  push(chunk: Uint8Array): boolean {
    if (this.#state !== 'open') return false;
    if (chunk.byteLength === 0) return true;
    if (this.#isFull(chunk.byteLength)) {
      this.cut();
      return false;
    }
    this.#add(chunk);
    return this.#isOpen();
  }

  /**
   * Resolves when all waiting messages have been written, or when the queue is closed. If the
   * reader receives nothing for {@link SendLimits.stallMs}, destroys the stream.
   */
  async flushed(): Promise<void> {
    if (this.#waitingBytes === 0) return;
    const { stallMs } = this.#pool.limits;
    if (stallMs !== undefined) this.#stall ??= setTimeout(() => this.destroy(), stallMs);
    await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Ends the stream after the waiting messages. No further messages are accepted. */
  end(): void {
    this.#end([]);
  }

  /**
   * Discards the waiting messages, except a partially written one. Then sends the farewell (the
   * last bytes for the reader), and ends the stream.
   */
  cut(): void {
    if (this.#state === 'closed') return;
    const isBegun = this.#isWriting || this.#written > 0;
    const rest = this.#chunks.splice(this.#at + (isBegun ? 1 : 0));
    for (const chunk of rest) this.#drop(chunk);
    if (this.#state === 'open') this.#end(this.#farewell());
  }

  /** Destroys the stream immediately. */
  destroy(): void {
    this.#close();
    this.#out.destroy();
  }

  #end(last: readonly Uint8Array[]): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    this.#linger = setTimeout(() => this.destroy(), lingerMs).unref();
    for (const chunk of last) this.#add(chunk);
    this.#write();
  }

  /** Whether the queue is open. Adding a message can cause the pool to close this queue. */
  #isOpen(): boolean {
    return this.#state === 'open';
  }

  /**
   * Whether the queue must reject a message of this size. While at most `extraBytes` are waiting,
   * it accepts any message. Otherwise, the waiting bytes and the message together may be at most
   * `messageBytes` plus `extraBytes`.
   */
  #isFull(bytes: number): boolean {
    const { messageBytes, extraBytes } = this.#pool.limits;
    const isBeyond = this.#waitingBytes + bytes > messageBytes + extraBytes;
    return isBeyond && this.#waitingBytes > extraBytes;
  }

  #add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.byteLength;
    this.#pool.retain(chunk);
    this.#write();
  }

  #drop(chunk: Uint8Array): void {
    this.#waitingBytes -= chunk.byteLength;
    this.#pool.release(chunk);
  }

  #write(): void {
    if (this.#isWriting || this.#state === 'closed') return;
    const chunk = this.#chunks[this.#at];
    if (chunk === undefined) {
      if (this.#state === 'ending') this.#out.end();
      return;
    }
    const slice = chunk.subarray(this.#written, this.#written + sliceBytes);
    this.#isWriting = true;
    this.#out.write(slice, (error) => {
      if (error === null || error === undefined) this.#onWritten(chunk, slice.byteLength);
    });
  }

  #onWritten(chunk: Uint8Array, bytes: number): void {
    if (this.#state === 'closed') return;
    this.#isWriting = false;
    this.#stall?.refresh();
    this.#written += bytes;
    if (this.#written === chunk.byteLength) {
      this.#written = 0;
      this.#at += 1;
      this.#drop(chunk);
      this.#forgetWritten();
    }
    this.#write();
  }

  #forgetWritten(): void {
    if (this.#at === this.#chunks.length) {
      this.#chunks = [];
      this.#at = 0;
      this.#wake();
    } else if (this.#at === 1024) {
      this.#chunks.splice(0, this.#at);
      this.#at = 0;
    }
  }

  #close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    clearTimeout(this.#linger);
    for (const chunk of this.#chunks.splice(0).slice(this.#at)) this.#drop(chunk);
    this.#pool.closed();
    this.#wake();
  }

  #wake(): void {
    clearTimeout(this.#stall);
    this.#stall = undefined;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

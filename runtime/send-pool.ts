import type { Writable } from 'node:stream';

/** Bounds of a {@link SendPool}, bytes. */
export interface SendLimits {
  /** The largest message. For one reader, one of these and {@link extraBytes} may wait. */
  readonly messageBytes: number;
  /** What all readers hold; what several of them wait for counts once. */
  readonly totalBytes: number;
  /** What may wait for one reader beside its largest message. Default 1 MiB. */
  readonly extraBytes?: number;
}

/** What is handed to the system, and to TLS, which copies it, at a time. */
const sliceBytes = 65_536;

/** Milliseconds that a reader has for what is left when its stream is over. */
const lingerMs = 30_000;

/** Bounds what waits for slow readers, for each and for all of them. */
export class SendPool {
  readonly #limits: Required<SendLimits>;
  readonly #queues = new Set<SendQueue>();
  /** How many queues have a chunk. */
  readonly #holders = new Map<Uint8Array, number>();
  #heldBytes = 0;

  constructor(limits: SendLimits) {
    this.#limits = { extraBytes: 1_048_576, ...limits };
  }

  /** Bytes of all chunks that wait, each counted once. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Writes to a reader from here on; nobody else may.
   * @param farewell gives what a reader is told that is ended because it is too slow
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

  /** Ends readers, those first for whom most waits. */
  #relieve(): void {
    const isOver = (): boolean => this.#heldBytes > this.#limits.totalBytes;
    const slowest = [...this.#queues].sort((a, b) => b.waitingBytes - a.waitingBytes);
    for (const queue of slowest) {
      if (isOver()) queue.cut();
      // It holds a message that it has the beginning of.
      if (isOver()) queue.destroy();
    }
  }
}

/** What a queue needs of its pool. */
interface SendPoolHandle {
  readonly limits: Required<SendLimits>;
  readonly retain: (chunk: Uint8Array) => void;
  readonly release: (chunk: Uint8Array) => void;
  readonly closed: () => void;
}

/** What waits for one reader. Messages are written whole, one after the other. */
export class SendQueue {
  readonly #out: Writable;
  readonly #farewell: () => readonly Uint8Array[];
  readonly #pool: SendPoolHandle;
  #chunks: Uint8Array[] = [];
  /** Index of the chunk that is being written, and how much of it is. */
  #at = 0;
  #written = 0;
  #waitingBytes = 0;
  #isWriting = false;
  #state: 'open' | 'ending' | 'closed' = 'open';
  #linger: NodeJS.Timeout | undefined;
  #waiters: (() => void)[] = [];

  constructor(out: Writable, farewell: () => readonly Uint8Array[], pool: SendPoolHandle) {
    this.#out = out;
    this.#farewell = farewell;
    this.#pool = pool;
    out.once('close', () => this.#close());
    if (out.destroyed) this.#state = 'closed';
  }

  /** Bytes that were not handed to the system yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Takes messages to be written, whole ones; one buffer for many readers is kept once.
   * @returns false when nothing more is taken: the reader was too slow, or has gone
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

  /** Resolves when all that waits has been written, or never will be. */
  async flushed(): Promise<void> {
    if (this.#waitingBytes === 0) return;
    await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  /** Takes nothing more, and ends the stream when what waits has been written. */
  end(): void {
    this.#end([]);
  }

  /** Drops what waits but for a message that has begun, says farewell, and ends the stream. */
  cut(): void {
    if (this.#state === 'closed') return;
    const isBegun = this.#isWriting || this.#written > 0;
    const rest = this.#chunks.splice(this.#at + (isBegun ? 1 : 0));
    for (const chunk of rest) this.#drop(chunk);
    if (this.#state === 'open') this.#end(this.#farewell());
  }

  /** Ends the stream at once. */
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

  /** Others may have made the pool end this one. */
  #isOpen(): boolean {
    return this.#state === 'open';
  }

  /** A message that is larger than others were thought to be is taken while little waits. */
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
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

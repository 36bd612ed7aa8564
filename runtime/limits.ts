/** What waits, and how much goes on at a time: queues, turns, semaphores, rates. */

import type { Writable } from 'node:stream';
import { delay } from './time-limit.ts';

/**
 * A bounded queue between what happens and whoever reads it with `for await`. Beyond its capacity
 * it ends with an error instead of growing.
 */
export class BoundedQueue<T> implements AsyncIterableIterator<T> {
  readonly #capacity: number;
  readonly #overflow: () => Error;
  #items: T[] = [];
  #wake: (() => void) | undefined;
  readonly #onEnd: () => void;
  #end: 'open' | 'closed' | { readonly error: Error } = 'open';

  /**
   * @param overflow makes the error that the reader gets when it was too slow
   * @param onEnd called once, when nothing more is taken
   */
  constructor(capacity: number, overflow: () => Error, onEnd: () => void = () => {}) {
    this.#onEnd = onEnd;
    this.#capacity = capacity;
    this.#overflow = overflow;
  }

  get isOpen(): boolean {
    return this.#end === 'open';
  }

  /** Items that wait to be read. */
  get length(): number {
    return this.#items.length;
  }

  /** Adds an item; ends the queue, and forgets what waits, when it is full. */
  push(item: T): void {
    if (this.#end !== 'open') return;
    if (this.#items.length >= this.#capacity) {
      this.#items = [];
      this.#end = { error: this.#overflow() };
      this.#onEnd();
    } else {
      this.#items.push(item);
    }
    this.#wake?.();
  }

  /** Ends the queue after what waits in it. */
  close(): void {
    if (this.#end === 'open') {
      this.#end = 'closed';
      this.#onEnd();
    }
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<T>> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) return { done: false, value: item };
      if (this.#end === 'closed') return { done: true, value: undefined };
      if (this.#end !== 'open') {
        const { error } = this.#end;
        this.#end = 'closed';
        throw error;
      }
      await this.#change();
    }
  }

  /** All that waits, each time. */
  async *batches(): AsyncGenerator<readonly T[], void, void> {
    try {
      for (;;) {
        const items = this.#items;
        if (items.length > 0) {
          this.#items = [];
          yield items;
        } else if (this.#end === 'closed') return;
        else if (this.#end !== 'open') throw this.#end.error;
        else await this.#change();
      }
    } finally {
      this.close();
    }
  }

  async #change(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }

  async return(): Promise<IteratorResult<T>> {
    this.#items = [];
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T> {
    return this;
  }
}

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

/** Lets so many through at a time; the others wait in the order in which they came. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  readonly #permits: number;
  #free: number;

  constructor(permits: number) {
    this.#permits = permits;
    this.#free = permits;
  }

  /** Whether nobody is through or waits. */
  get isIdle(): boolean {
    return this.#free === this.#permits;
  }

  /** Runs `work` once there is room. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** Lets so many through at a time for each key; a slow one delays only those of its key. */
export class KeyedSemaphore {
  readonly #permits: number;
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(permits: number) {
    this.#permits = permits;
  }

  /** Runs `work` once there is room for this key. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(this.#permits);
    this.#semaphores.set(key, semaphore);
    try {
      return await semaphore.run(work);
    } finally {
      if (semaphore.isIdle) this.#semaphores.delete(key);
    }
  }
}

/** Runs work for the same key one after the other, in the order of the calls; other keys go on meanwhile. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` once all earlier work for this key has settled. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const current = before.then(work, work);
    this.#last.set(key, current);
    try {
      return await current;
    } finally {
      if (this.#last.get(key) === current) this.#last.delete(key);
    }
  }
}

/** Whoever has requests that wait for a turn: a connection. */
export interface LimiterClient {
  /** Takes turns as long as there are any and requests for them. */
  startRequests(): void;
}

/**
 * Bounds the requests of all connections that are worked on at the same time: when every minion of
 * a large fleet returns at once, requests without a slot are left in the sockets. Slots go round:
 * each connection gets one when its turn has come, however many requests it has.
 */
export class ConcurrencyLimiter {
  readonly #waiting = new Set<LimiterClient>();
  #free: number;
  #isGiving = false;

  constructor(maxConcurrent: number) {
    this.#free = maxConcurrent;
  }

  /** @returns whether there was one; if not, `taker` is told when there is */
  tryAcquire(taker: LimiterClient): boolean {
    if (this.#free === 0) {
      this.#waiting.add(taker);
      return false;
    }
    this.#free -= 1;
    return true;
  }

  release(): void {
    this.#free += 1;
    // Who is given a turn may give it back before he returns: the loop that gave it goes on.
    if (this.#isGiving) return;
    this.#isGiving = true;
    try {
      for (const taker of this.#waiting) {
        if (this.#free === 0) return;
        this.#waiting.delete(taker);
        taker.startRequests();
      }
    } finally {
      this.#isGiving = false;
    }
  }

  /** No longer waits. */
  cancel(taker: LimiterClient): void {
    this.#waiting.delete(taker);
  }
}

/**
 * Goes on with a value: at once where it is there, without the turns of the event loop that a
 * promise takes. Nearly all requests wait for nothing.
 */
export function mapMaybePromise<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** How much may pass in a time: `perSecond` on average, `burst` at once. */
export interface Rate {
  /** 0: without limit. */
  readonly perSecond: number;
  readonly burst: number;
}

/** Less than 1, because a token that was filled in thirds is not exactly 1. */
const oneToken = 1 - 1e-9;

interface Bucket {
  tokens: number;
  filledAt: number;
}

/**
 * A token bucket for each owner (a minion, an address). Owners whose bucket is full again are
 * forgotten, so memory follows those that are busy now; at most `maxOwners` are told apart.
 */
export class TokenBuckets {
  #rate: Rate;
  readonly #maxOwners: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  /** @param now milliseconds of a monotonic clock */
  constructor(rate: Rate, now: () => number = () => performance.now(), maxOwners = 100_000) {
    this.#rate = rate;
    this.#now = now;
    this.#maxOwners = maxOwners;
  }

  /** Goes by another rate from now on; what each owner has left stays, up to the new burst. */
  setRate(rate: Rate): void {
    this.#rate = rate;
  }

  /** Whether {@link tryTake} would take a token. */
  has(owner: string, now: number = this.#now()): boolean {
    if (this.#rate.perSecond === 0) return true;
    const bucket = this.#buckets.get(owner);
    return bucket === undefined || this.#filled(bucket, now) >= oneToken;
  }

  /** Takes one token if there is one. */
  tryTake(owner: string, now: number = this.#now()): boolean {
    if (this.#rate.perSecond === 0) return true;
    const bucket = this.#bucket(owner, now);
    if (bucket.tokens < oneToken) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** Takes tokens, going into debt if there are too few. @returns milliseconds to wait first */
  take(owner: string, count = 1): number {
    if (this.#rate.perSecond === 0) return 0;
    const bucket = this.#bucket(owner, this.#now());
    bucket.tokens -= count;
    return bucket.tokens >= 0 ? 0 : (-bucket.tokens / this.#rate.perSecond) * 1000;
  }

  #bucket(owner: string, now: number): Bucket {
    const known = this.#buckets.get(owner);
    if (known === undefined) {
      const fresh = { tokens: this.#rate.burst, filledAt: now };
      this.#forgetIdle();
      this.#buckets.set(owner, fresh);
      return fresh;
    }
    known.tokens = this.#filled(known, now);
    known.filledAt = now;
    return known;
  }

  /** A clock that is set back adds nothing. */
  #filled({ tokens, filledAt }: Bucket, now: number): number {
    const earned = (Math.max(0, now - filledAt) / 1000) * this.#rate.perSecond;
    return Math.min(this.#rate.burst, tokens + earned);
  }

  /** The oldest go first: with their bucket full they lose nothing, and a flood of owners only shares. */
  #forgetIdle(): void {
    if (this.#buckets.size < this.#maxOwners) return;
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}

/**
 * Delays what is over a rate, so many at a time for each owner: who opens connection after
 * connection would otherwise leave ever more behind that waits for its turn, in memory and for ever
 * longer.
 */
export class Throttle {
  readonly #buckets: TokenBuckets;
  readonly #maxWaiting: number;
  readonly #waiting = new Map<string, number>();
  #total = 0;

  constructor(buckets: TokenBuckets, maxWaiting: number) {
    this.#buckets = buckets;
    this.#maxWaiting = maxWaiting;
  }

  /** How many wait, of all owners. */
  get waiting(): number {
    return this.#total;
  }

  /**
   * Resolves when it is its turn; without a promise if that is now.
   * @param count tokens that it costs
   * @param onDelay called when it has to wait
   * @returns false, at once and without a cost, where as many of the owner's wait as may
   */
  pass(owner: string, count = 1, onDelay: () => void = () => {}): boolean | Promise<true> {
    const waiting = this.#waiting.get(owner) ?? 0;
    if (waiting >= this.#maxWaiting) return false;
    const milliseconds = this.#buckets.take(owner, count);
    if (milliseconds === 0) return true;
    onDelay();
    this.#waiting.set(owner, waiting + 1);
    this.#total += 1;
    return this.#wait(owner, milliseconds);
  }

  async #wait(owner: string, milliseconds: number): Promise<true> {
    await delay(milliseconds);
    this.#leave(owner);
    return true;
  }

  #leave(owner: string): void {
    this.#total -= 1;
    const left = (this.#waiting.get(owner) ?? 1) - 1;
    if (left === 0) this.#waiting.delete(owner);
    else this.#waiting.set(owner, left);
  }
}

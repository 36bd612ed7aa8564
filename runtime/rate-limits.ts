import { delay } from './time-limit.ts';

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

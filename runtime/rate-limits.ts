import type { Limit, Rate } from './limits.ts';
import { delay } from './time-limit.ts';

/**
 * Minimum balance for taking one token. It is slightly less than 1, because three additions of 1/3
 * do not always give exactly 1 in floating point.
 */
const oneToken = 1 - 1e-9;

const unlimited: Rate = { perSecond: 0, burst: 0 };

interface Bucket {
  tokens: number;
  filledAt: number;
}

/**
 * Token buckets, one for each owner (a minion, an address). The maximum number of buckets is the
 * property `total` of the limit, by default 100,000. Beyond this number, a new bucket replaces the
 * one that was created first.
 */
export class TokenBuckets {
  #rate: Rate;
  readonly #maxOwners: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  /**
   * @param now - returns the time of a monotonic clock, in milliseconds
   * @param rate - rate to use instead of the rate that `limit` defines
   */
  constructor(limit: Limit, now: () => number = () => performance.now(), rate?: Rate) {
    this.#rate = rate ?? limit.rate ?? unlimited;
    this.#now = now;
    this.#maxOwners = limit.total ?? 100_000;
  }

  /** Changes the rate. Each owner retains its remaining tokens, up to the new burst. */
  setRate(rate: Rate): void {
    this.#rate = rate;
  }

  /** Whether {@link tryTake} would succeed. */
  has(owner: string, now: number = this.#now()): boolean {
    if (this.#rate.perSecond === 0) return true;
    const bucket = this.#buckets.get(owner);
    return bucket === undefined || this.#filled(bucket, now) >= oneToken;
  }

  /**
   * Takes one token, unless fewer than `left` tokens would remain in the bucket. Returns whether a
   * token was taken.
   * @param left - number of tokens that must remain
   */
  tryTake(owner: string, now: number = this.#now(), left = 0): boolean {
    if (this.#rate.perSecond === 0) return true;
    const bucket = this.#bucket(owner, now);
    if (bucket.tokens < left + oneToken) return false;
    bucket.tokens -= 1;
    return true;
  }

  /**
   * Takes tokens. If there are too few, the balance becomes negative.
   * @returns time to wait in milliseconds, 0 if there were enough tokens
   */
  take(owner: string, count = 1): number {
    if (this.#rate.perSecond === 0) return 0;
    const bucket = this.#bucket(owner, this.#now());
    bucket.tokens -= count;
    return bucket.tokens >= 0 ? 0 : (-bucket.tokens / this.#rate.perSecond) * 1000;
  }

  /** Whether there is no bucket of any owner, so that no look-up of an owner is necessary. */
  get isUnused(): boolean {
    return this.#buckets.size === 0;
  }

  /** Gives back tokens that the owner has taken. The balance does not exceed the burst. */
  give(owner: string, count: number): void {
    const bucket = this.#buckets.get(owner);
    if (bucket !== undefined) bucket.tokens = Math.min(this.#rate.burst, bucket.tokens + count);
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

  /**
   * Returns the number of tokens in a bucket at the time `now`. If the clock was set back, no
   * tokens are added.
   */
  #filled({ tokens, filledAt }: Bucket, now: number): number {
    const earned = (Math.max(0, now - filledAt) / 1000) * this.#rate.perSecond;
    return Math.min(this.#rate.burst, tokens + earned);
  }

  /**
   * If the maximum number of buckets is reached, removes the bucket that was created first. The
   * owner of this bucket may still be active. The owner's next request then creates a full bucket,
   * so the owner can exceed its rate.
   */
  #forgetIdle(): void {
    if (this.#buckets.size < this.#maxOwners) return;
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}

/**
 * Delays requests that exceed a rate, with a maximum number of waiting requests per owner. Without
 * the maximum, an owner could accumulate any number of waiting requests by opening more
 * connections.
 */
export class Throttle {
  readonly #buckets: TokenBuckets;
  readonly #maxWaiting: number;
  readonly #weigh: (count: number) => number;
  readonly #waiting = new Map<string, number>();
  #total = 0;

  /**
   * Creates the throttle.
   * @param weigh - returns how much a waiting request counts towards `perOwner` of `limit`, the
   * maximum for one owner. `count` is the number of tokens that the request costs. Default: each
   * request counts as 1
   */
  constructor(limit: Limit, buckets: TokenBuckets, weigh: (count: number) => number = () => 1) {
    this.#buckets = buckets;
    this.#weigh = weigh;
    this.#maxWaiting = limit.perOwner ?? Infinity;
  }

  /** Number of waiting requests of all owners. */
  get waiting(): number {
    return this.#total;
  }

  /**
   * Resolves when the request may proceed. Returns `true` without a promise if it may proceed now.
   * @param count - number of tokens that the request costs
   * @param onDelay - called if the request has to wait
   * @returns `false` if the owner already has the maximum of waiting requests. `false` is
   * returned synchronously, and no tokens are taken
   */
  pass(owner: string, count = 1, onDelay: () => void = () => {}): boolean | Promise<true> {
    const waiting = this.#waiting.get(owner) ?? 0;
    if (waiting >= this.#maxWaiting) return false;
    const milliseconds = this.#buckets.take(owner, count);
    if (milliseconds === 0) return true;
    onDelay();
    const weight = this.#weigh(count);
    this.#waiting.set(owner, waiting + weight);
    this.#total += 1;
    return this.#wait(owner, weight, milliseconds);
  }

  async #wait(owner: string, weight: number, milliseconds: number): Promise<true> {
    await delay(milliseconds);
    this.#leave(owner, weight);
    return true;
  }

  #leave(owner: string, weight: number): void {
    this.#total -= 1;
    const left = (this.#waiting.get(owner) ?? weight) - weight;
    if (left === 0) this.#waiting.delete(owner);
    else this.#waiting.set(owner, left);
  }
}

/** How much may pass in a time: `perSecond` on average, `burst` at once. */
export interface Rate {
  /** 0: without limit. */
  readonly perSecond: number;
  readonly burst: number;
}

interface Bucket {
  tokens: number;
  filledAt: number;
}

/**
 * A token bucket for each owner (a minion, an address). Owners whose bucket is full again are
 * forgotten, so memory follows those that are busy now; at most `maxOwners` are told apart.
 */
export class TokenBuckets {
  readonly #rate: Rate;
  readonly #maxOwners: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  /** @param now milliseconds of a monotonic clock */
  constructor(rate: Rate, now: () => number = () => performance.now(), maxOwners = 100_000) {
    this.#rate = rate;
    this.#now = now;
    this.#maxOwners = maxOwners;
  }

  /** Takes one token if there is one. */
  tryTake(owner: string): boolean {
    if (this.#rate.perSecond === 0) return true;
    const bucket = this.#bucket(owner);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** Takes tokens, going into debt if there are too few. @returns milliseconds to wait first */
  take(owner: string, count = 1): number {
    if (this.#rate.perSecond === 0) return 0;
    const bucket = this.#bucket(owner);
    bucket.tokens -= count;
    return bucket.tokens >= 0 ? 0 : (-bucket.tokens / this.#rate.perSecond) * 1000;
  }

  #bucket(owner: string): Bucket {
    const now = this.#now();
    const known = this.#buckets.get(owner);
    if (known === undefined) {
      const fresh = { tokens: this.#rate.burst, filledAt: now };
      this.#forgetIdle();
      this.#buckets.set(owner, fresh);
      return fresh;
    }
    const earned = ((now - known.filledAt) / 1000) * this.#rate.perSecond;
    known.tokens = Math.min(this.#rate.burst, known.tokens + earned);
    known.filledAt = now;
    return known;
  }

  /** The oldest go first: with their bucket full they lose nothing, and a flood of owners only shares. */
  #forgetIdle(): void {
    if (this.#buckets.size < this.#maxOwners) return;
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}

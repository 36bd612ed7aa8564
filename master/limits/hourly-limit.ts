import { TokenBuckets } from './token-bucket.ts';

/** So many in an hour for each owner, all at once if it likes; 0: without limit. */
export class HourlyLimit {
  readonly #buckets: TokenBuckets;

  /** @param now milliseconds of a monotonic clock */
  constructor(perHour: number, now?: () => number) {
    this.#buckets = new TokenBuckets({ perSecond: perHour / 3600, burst: perHour }, now);
  }

  /** Counts one and says whether it may pass. */
  allows(owner: string): boolean {
    // protection: self-made-without-end
    return this.#buckets.tryTake(owner);
  }
}

import { delay } from './delay.ts';
import type { TokenBuckets } from './token-bucket.ts';

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
    // protection: waiting-without-end
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

import type { Limit } from '#runtime';

/** A connection with requests that wait for a slot. */
export interface LimiterClient {
  /** Starts waiting requests while slots are free. */
  startRequests(): void;
}

/**
 * Limits the number of requests that a listener processes at the same time, for all connections
 * together. If all minions of a large fleet return at once, some requests must wait for a slot.
 * While a request waits, its connection reads no further requests. Free slots are assigned in
 * turns: each waiting connection gets one, regardless of its number of requests.
 */
export class ConcurrencyLimiter {
  readonly #waiting = new Set<LimiterClient>();
  #free: number;
  #isGiving = false;

  /**
   * @param maxConcurrent - maximum number of concurrent requests. Default: the value `total` of
   * `limit`
   */
  constructor(limit: Limit, maxConcurrent: number = limit.total ?? Infinity) {
    this.#free = maxConcurrent;
  }

  /**
   * Takes a slot.
   * @returns whether a slot was free; if not, `taker.startRequests()` is called as soon as a slot
   * is free
   */
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
    // `startRequests()` may release its slot before it returns. The outer loop then continues.
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

  /** Removes a connection from the waiting list. */
  cancel(taker: LimiterClient): void {
    this.#waiting.delete(taker);
  }
}

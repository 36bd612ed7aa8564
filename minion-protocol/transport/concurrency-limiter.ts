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

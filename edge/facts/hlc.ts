/** Hybrid logical clock (Kulkarni and others, 2014): wall clock in milliseconds and a counter. */

/** Time of a hybrid logical clock. */
export interface HybridTime {
  /** Milliseconds since 1970. */
  readonly ms: number;
  readonly count: number;
}

/** Compares two times. Returns a negative number if `a` is earlier. */
export function compareTimes(a: HybridTime, b: HybridTime): number {
  return a.ms === b.ms ? a.count - b.count : a.ms - b.ms;
}

/** Highest counter. A clock that reaches it advances by one millisecond instead. */
const maxCount = 0xffff;

/** Clock whose times grow with each call, even if the wall clock is set back. */
export class HybridClock {
  readonly #now: () => number;
  #last: HybridTime;

  /**
   * @param now wall clock, in milliseconds since 1970
   * @param floor latest time that was used before
   */
  constructor(now: () => number, floor: HybridTime = { ms: 0, count: 0 }) {
    this.#now = now;
    this.#last = floor;
  }

  /** Latest time that was used. */
  get last(): HybridTime {
    return this.#last;
  }

  /** Returns a time that is later than all former ones. */
  next(): HybridTime {
    const ms = Math.floor(this.#now());
    const { ms: last, count } = this.#last;
    if (ms > last) this.#last = { ms, count: 0 };
    else if (count < maxCount) this.#last = { ms: last, count: count + 1 };
    else this.#last = { ms: last + 1, count: 0 };
    return this.#last;
  }

  /**
   * Takes a time of another clock into account, so that the next time is later.
   * @param maxAheadMs how far the time may be ahead of the wall clock
   * @returns `false` if it is further ahead. The clock then does not change
   */
  receive(time: HybridTime, maxAheadMs: number): boolean {
    if (time.ms > this.#now() + maxAheadMs) return false;
    if (compareTimes(time, this.#last) > 0) this.#last = time;
    return true;
  }

  /**
   * Sets the clock back to the wall clock. Needed after the wall clock was far ahead and was
   * corrected, because the other side refuses times that are far ahead.
   */
  reset(): void {
    this.#last = { ms: Math.floor(this.#now()), count: 0 };
  }
}

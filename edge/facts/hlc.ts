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

/** Maximum value of the counter. After this value, the clock advances by one millisecond. */
const maxCount = 0xffff;

/** Clock that returns a later time at each call, even if the wall clock is set back. */
export class HybridClock {
  readonly #now: () => number;
  #last: HybridTime;

  /**
   * @param now - wall clock, in milliseconds since 1970
   * @param floor - latest time that an earlier clock returned
   */
  constructor(now: () => number, floor: HybridTime = { ms: 0, count: 0 }) {
    this.#now = now;
    this.#last = floor;
  }

  /** Latest time that the clock returned or received. */
  get last(): HybridTime {
    return this.#last;
  }

  /** Returns a time that is later than {@link last}. */
  next(): HybridTime {
    const ms = Math.floor(this.#now());
    const { ms: last, count } = this.#last;
    if (ms > last) this.#last = { ms, count: 0 };
    else if (count < maxCount) this.#last = { ms: last, count: count + 1 };
    else this.#last = { ms: last + 1, count: 0 };
    return this.#last;
  }

  /**
   * Receives a time of another clock. The next time of this clock is later than the received time.
   * @param maxAheadMs - maximum time by which the received time may be ahead of the wall clock, in
   * milliseconds
   * @returns `false` if the received time exceeds this maximum. This clock then does not change
   */
  receive(time: HybridTime, maxAheadMs: number): boolean {
    if (time.ms > this.#now() + maxAheadMs) return false;
    if (compareTimes(time, this.#last) > 0) this.#last = time;
    return true;
  }

  /**
   * Sets this clock to the time of the wall clock. Call this method after an operator has corrected
   * a wall clock that was too far ahead. Otherwise this clock continues from the wrong time, and
   * the centre refuses its times.
   */
  reset(): void {
    this.#last = { ms: Math.floor(this.#now()), count: 0 };
  }
}

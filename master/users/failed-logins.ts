import { addressOwner, FairTable, TokenBuckets } from '#runtime';
import { userLimits } from './limits.ts';

/** Period of counting failures, in milliseconds. Earlier failures do not count. */
const windowMs = 60_000;

const { perOwner: maxFailures = 5 } = userLimits.failedLogins;

/**
 * Limits failed log-ins for each combination of user and source, so that failures do not lock out
 * other users [THREATS A-04]. A source is an address, or an IPv6 network of 64 bits. The total of a
 * source, over all user names, is also limited. Without this total, a source could try many user
 * names until the records of its earlier failures are evicted, because the number of records is
 * limited.
 */
export class FailedLogins {
  readonly #now: () => number;
  /**
   * Start times of the attempts that failed or are in progress, in milliseconds. The key consists
   * of source and user.
   */
  readonly #attempts = new FairTable<number[]>(userLimits.failureRecords);
  readonly #ofSource: TokenBuckets;

  /** @param now - returns the time of a monotonic clock, in milliseconds */
  constructor(now: () => number) {
    this.#now = now;
    this.#ofSource = new TokenBuckets(userLimits.failuresOfSource, now);
  }

  /**
   * Counts an attempt before it is made, so that concurrent attempts cannot bypass the limit.
   * @returns a function that removes the attempt from the count. Call it if the attempt did not
   * fail. `undefined` if the limit is reached
   */
  begin(user: string, address: string): (() => void) | undefined {
    const source = addressOwner(address);
    const key = `${source} ${user}`;
    const at = this.#now();
    const recent = (this.#attempts.get(key) ?? []).filter((it) => it > at - windowMs);
    if (recent.length >= maxFailures || !this.#ofSource.tryTake(source)) return undefined;
    recent.push(at);
    this.#record(source, key, recent);
    return () => {
      // Attempts that began later have replaced the list.
      const counted = this.#attempts.peek(key) ?? [];
      const index = counted.indexOf(at);
      if (index >= 0) counted.splice(index, 1);
      this.#ofSource.take(source, -1);
    };
  }

  #record(source: string, key: string, recent: number[]): void {
    if (this.#attempts.trySet(source, key, recent)) return;
    this.#forgetOld();
    this.#attempts.set(source, key, recent);
  }

  #forgetOld(): void {
    const since = this.#now() - windowMs;
    for (const key of [...this.#attempts.keys()]) {
      const attempts = this.#attempts.peek(key) ?? [];
      if (!attempts.some((at) => at > since)) this.#attempts.delete(key);
    }
  }
}

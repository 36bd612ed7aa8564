import type { Logger } from 'pino';
import type { Decision } from '#acl';
import { createBoundedMap, TokenBuckets } from '#runtime';
import type { Denial } from '../api/index.ts';
import { requestLimits } from './limits.ts';

const burstMs = 60_000;

/**
 * Stores the latest events that the policy rejected, and logs them. Rejected events of one minion
 * with the same tag are logged once per 60 s. For each minion, at most one event per second is
 * logged on average, and at most 20 at once.
 */
export class DenialLog {
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #rate: TokenBuckets;
  readonly #denials = createBoundedMap<string, Denial>(requestLimits.denials);

  constructor(log: Logger, now: () => number) {
    this.#log = log;
    this.#now = now;
    this.#rate = new TokenBuckets(requestLimits.denialLog, now);
  }

  /**
   * Records a rejected event. If the minion repeats the event within 60 s, only the count of the
   * record increases. If the minion exceeds its rate of log lines, nothing is recorded.
   * @returns whether the event was logged; the caller reports only logged events
   */
  note(minion: string, tag: string, { rule, reason }: Decision): boolean {
    const now = this.#now();
    const key = JSON.stringify([minion, tag]);
    const known = this.#denials.get(key);
    if (known !== undefined && now - known.firstAt < burstMs) {
      this.#denials.set(key, { ...known, count: known.count + 1, lastAt: now });
      return false;
    }
    if (!this.#rate.tryTake(minion)) return false;
    this.#denials.set(key, { minion, tag, rule, reason, count: 1, firstAt: now, lastAt: now });
    this.#log.info({ minion, tag, rule, reason }, 'signal denied');
    return true;
  }

  /** Returns the latest rejected events of minions, oldest first. */
  list(): Denial[] {
    return [...this.#denials.rvalues()].filter((denial) => denial !== undefined);
  }
}

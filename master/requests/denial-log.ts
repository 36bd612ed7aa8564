import type { Logger } from 'pino';
import type { Decision } from '#acl';
import { createBoundedMap, TokenBuckets } from '#runtime';
import type { Denial } from '../api/index.ts';
import { requestLimits } from './limits.ts';

const burstMs = 60_000;

/**
 * Stores the latest events of minions that the policy rejected. For each minion and tag, one line
 * per 60 s is logged, even if the minion repeats the event.
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
   * Records a rejected event.
   * @returns whether it is the first of a burst and should be reported
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

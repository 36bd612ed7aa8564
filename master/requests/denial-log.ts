import type { Logger } from 'pino';
import type { Decision } from '../../acl/index.ts';
import { type Rate, TokenBuckets } from '../limits/token-bucket.ts';

/** A refused signal, for whoever asks why something did not happen. */
export interface Denial {
  readonly minion: string;
  readonly tag: string;
  readonly rule: string;
  readonly reason: string;
  /** How often in this burst. */
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly lastAt: number;
}

const burstMs = 60_000;
const maxRemembered = 1_000;
/** How often a minion may be noted for another tag: a flood of tags is no more than this in the log. */
const notes: Rate = { perSecond: 1, burst: 20 };

/**
 * Remembers the latest refused signals and logs each (minion, tag) once a burst: a minion that
 * repeats itself a thousand times a second costs one line a minute.
 */
export class DenialLog {
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #rate: TokenBuckets;
  readonly #denials = new Map<string, Denial>();

  constructor(log: Logger, now: () => number) {
    this.#log = log;
    this.#now = now;
    this.#rate = new TokenBuckets(notes, now);
  }

  /** @returns whether it is the first of a burst, and was logged */
  note(minion: string, tag: string, { rule, reason }: Decision): boolean {
    const now = this.#now();
    const key = JSON.stringify([minion, tag]);
    const known = this.#denials.get(key);
    if (known !== undefined && now - known.firstAt < burstMs) {
      this.#denials.delete(key);
      this.#denials.set(key, { ...known, count: known.count + 1, lastAt: now });
      return false;
    }
    // protection: flood-of-lines
    if (!this.#rate.tryTake(minion)) return false;
    this.#denials.delete(key);
    this.#denials.set(key, { minion, tag, rule, reason, count: 1, firstAt: now, lastAt: now });
    this.#log.info({ minion, tag, rule, reason }, 'signal denied');
    this.#forgetOldest();
    return true;
  }

  /** The latest ones, oldest first. */
  list(): Denial[] {
    return [...this.#denials.values()];
  }

  #forgetOldest(): void {
    const [oldest] = this.#denials.keys();
    if (this.#denials.size > maxRemembered && oldest !== undefined) this.#denials.delete(oldest);
  }
}

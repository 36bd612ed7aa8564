/** How often subjects may use a rule. */
import { PolicyError } from './errors.ts';

/** So many in a time, as a bucket that fills again steadily. */
export interface Rate {
  readonly count: number;
  readonly periodMs: number;
}

const periods: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
};

/** Reads `10/minute`. @throws PolicyError ERR_POLICY_PATTERN */
export function parseRate(text: string, rule: string): Rate {
  const [, count, period = ''] = /^([1-9]\d{0,8})\/(second|minute|hour|day)$/.exec(text) ?? [];
  const periodMs = periods[period];
  if (count !== undefined && periodMs !== undefined) return { count: Number(count), periodMs };
  const problem = 'expected a number, a slash, and second, minute, hour or day';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'rate' }, problem);
}

interface Bucket {
  left: number;
  filledAt: number;
}

/** Subjects that are told apart; a flood of more shares what the oldest had. */
const maxSubjects = 100_000;

/** Meters one rule, for each subject by itself. */
export class RateLimiter {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Bucket>();

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  /** Whether there is one left. */
  has(subject: string, now: number): boolean {
    return this.#left(subject, now) >= 1;
  }

  /** Takes one, if there is one. */
  take(subject: string, now: number): boolean {
    const left = this.#left(subject, now);
    const isTaken = left >= 1;
    this.#note(subject, { left: isTaken ? left - 1 : left, filledAt: now });
    return isTaken;
  }

  #left(subject: string, now: number): number {
    const { count, periodMs } = this.#rate;
    const bucket = this.#buckets.get(subject);
    if (bucket === undefined) return count;
    // A clock that is set back fills nothing.
    const earned = (Math.max(0, now - bucket.filledAt) / periodMs) * count;
    return Math.min(count, bucket.left + earned);
  }

  #note(subject: string, bucket: Bucket): void {
    if (this.#buckets.size >= maxSubjects && !this.#buckets.has(subject)) {
      const [oldest] = this.#buckets.keys();
      if (oldest !== undefined) this.#buckets.delete(oldest);
    }
    this.#buckets.set(subject, bucket);
  }
}

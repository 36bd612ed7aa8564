import type { Rate } from '#runtime';
import { PolicyError } from './errors.ts';

const secondsOf: Readonly<Record<string, number>> = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
};

/**
 * Parses a rate. `10/minute` means ten at once, and one more every six seconds.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function parseRate(text: string, rule: string): Rate {
  const [, count, period = ''] = /^([1-9]\d{0,8})\/(second|minute|hour|day)$/.exec(text) ?? [];
  const seconds = secondsOf[period];
  if (count !== undefined && seconds !== undefined) {
    return { perSecond: Number(count) / seconds, burst: Number(count) };
  }
  const problem = 'must be a number, a slash, and second, minute, hour or day';
  throw new PolicyError('ERR_POLICY_PATTERN', { rule, field: 'rate' }, problem);
}

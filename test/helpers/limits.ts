import { defineLimits, type Limit, type LimitValues } from '#runtime';

/** Returns a limit with these amounts, for tests of limiters. */
export function testLimit(values: LimitValues): Limit {
  const row = { unit: 'uses', owner: 'caller', effect: 'The use is refused.' } as const;
  return defineLimits('test', { limit: { ...row, ...values } }).limit;
}

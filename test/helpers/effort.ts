/**
 * Scales tests that try many cases. `npm test` tries few cases and always the same ones. `npm run
 * campaign -- hostile-tests` or `properties` tries many times as many, with another seed.
 */

/** Factor by which the number of cases exceeds that of `npm test`. Default: 1. */
export const effort: number = Number(process.env.SALTBRIDGE_EFFORT ?? '1');

/** Returns the seed of a test. A campaign replaces it. */
export function seedOf(usual: number): number {
  return Number(process.env.SALTBRIDGE_SEED ?? usual);
}

/**
 * Returns options for fast-check.
 * @param count - number of cases that `npm test` tries
 */
export function tries(count: number): { readonly numRuns: number; readonly seed: number } {
  return { numRuns: Math.ceil(count * effort), seed: seedOf(20_240_102) };
}

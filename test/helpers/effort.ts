/**
 * How much a test does whose strength is in numbers: a little with `npm test`, always the same, and
 * many times that, by another seed, with `npm run campaign -- hostile` or `properties`.
 */

/** Times what `npm test` does. */
export const effort: number = Number(process.env.SALTBRIDGE_EFFORT ?? '1');

/** The seed of a test, which a campaign replaces. */
export function seedOf(usual: number): number {
  return Number(process.env.SALTBRIDGE_SEED ?? usual);
}

/** Options of fast-check. @param count how often `npm test` tries a property */
export function tries(count: number): { readonly numRuns: number; readonly seed: number } {
  return { numRuns: Math.ceil(count * effort), seed: seedOf(20_240_102) };
}

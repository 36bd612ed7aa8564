/**
 * How much a test does whose strength is in numbers: once with `npm test`, many times and by
 * another seed with `npm run campaign -- hostile`.
 */

/** Times what `npm test` does. */
export const effort: number = Number(process.env.SALTBRIDGE_EFFORT ?? '1');

/** The seed of a test, which a campaign replaces. */
export function seedOf(usual: number): number {
  return Number(process.env.SALTBRIDGE_SEED ?? usual);
}

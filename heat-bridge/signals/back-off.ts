/** How long to wait before a service is asked again. */

/** Milliseconds. */
export interface BackOffOptions {
  /** After the first failure; doubled with each. */
  readonly firstMs: number;
  /** Never longer. */
  readonly mostMs: number;
}

/** Half of it is certain, half is chance, so that what failed together does not come back together. */
export function backOffMs(
  failures: number,
  { firstMs, mostMs }: BackOffOptions,
  random: () => number,
): number {
  const whole = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return whole / 2 + (whole / 2) * random();
}

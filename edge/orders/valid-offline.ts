/**
 * Calculates how long a site may be without contact to its centre before the orders of the centre
 * become invalid.
 */

import type { SiteOptions } from '#config';
import type { ExtensionHost } from '#master';
import { bundleInUse } from '../bundles/site-bundles.ts';

/**
 * Default time without contact to the centre after which its orders become invalid: a day, in
 * seconds. Applies if the bundle states no other time.
 */
const usualSeconds = 86_400;

/**
 * Returns how long orders of the centre remain valid without contact to the centre, in seconds. The
 * option `valid_offline` of the site can only shorten the time that the bundle states.
 * @param ofBundle - time that the bundle states, in seconds. Default: 86,400 (a day)
 */
export function validOffline(
  { validOfflineSeconds = Infinity }: Pick<SiteOptions, 'validOfflineSeconds'>,
  ofBundle: number = usualSeconds,
): number {
  return Math.min(validOfflineSeconds, ofBundle);
}

/**
 * Returns how long orders of the centre remain valid without contact to the centre, in seconds.
 * Depends on the bundle that the site uses now, and on its own option `valid_offline`.
 */
export function validOfflineOf({
  host,
  options,
}: {
  readonly host: Pick<ExtensionHost, 'use'>;
  readonly options: SiteOptions;
}): number {
  const bundle = host.use(bundleInUse).current();
  return validOffline(options, bundle?.manifest.validOfflineSeconds);
}

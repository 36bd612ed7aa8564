/** Address of the HTTP routes for sites at a centre. */

import { trimEnd } from '#runtime';

/** Path of the HTTP routes for sites, below the address of the centre. */
export const edgePath = '/site/v1';

/**
 * Returns the address of the HTTP routes for sites, without a slash at its end.
 * @param centre - address of the centre's HTTP API
 */
export function edgeAddress(centre: string): string {
  return `${trimEnd(centre, '/')}${edgePath}`;
}

/** Addresses at which a site tries to reach its centre. */

import { readFile } from 'node:fs/promises';
import type { SiteOptions } from '#config';
import type { SiteIdentity } from '../identity/site-identity.ts';

/** Address of a centre, and options for the connection to it. */
export interface CentreEndpoint {
  /** Address of the HTTP API. */
  readonly centre: string;
  /** CA of the certificate, PEM. `undefined`: the CAs of the system. */
  readonly ca: string | Uint8Array | undefined;
  /** Whether the TLS connection ends at a proxy in front of the centre. */
  readonly behindProxy: boolean;
}

type EndpointOptions = Pick<SiteOptions, 'addresses' | 'behindProxy' | 'ca' | 'centre'>;

/**
 * Returns the endpoints of the site's centre, in the order in which the site tries them. If a
 * signed statement has moved the site to this centre, the addresses in the statement replace the
 * options `centre` and `addresses`. If the operator has changed `centre` since then, the site tries
 * the options first.
 */
export async function endpointsOf(
  { rehomed }: Pick<SiteIdentity, 'rehomed'>,
  options: EndpointOptions,
): Promise<readonly CentreEndpoint[]> {
  const ownCa = await configuredCa(options);
  const configured = [options.centre, ...options.addresses].map((centre) => {
    return { centre, ca: ownCa, behindProxy: options.behindProxy };
  });
  if (rehomed === undefined) return configured;
  const isSetAgain = options.centre !== rehomed.replaced;
  const { addresses, ca = ownCa, behindProxy } = rehomed;
  const stated = addresses.map((centre) => ({ centre, ca, behindProxy }));
  return isSetAgain ? [...configured, ...stated] : stated;
}

/**
 * Reads the CA certificates from the file in the option `ca`. Returns `undefined` if the option is
 * not set.
 */
export async function configuredCa({ ca }: Pick<SiteOptions, 'ca'>): Promise<Buffer | undefined> {
  return ca === undefined ? undefined : await readFile(ca);
}

/** Whether connections to the endpoint use TLS. */
export function isSecure({ centre }: Pick<CentreEndpoint, 'centre'>): boolean {
  return centre.startsWith('https:');
}

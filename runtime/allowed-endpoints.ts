/**
 * Endpoints to which the master may send requests, listed by scheme, host and port. Their host
 * names may resolve to public addresses only, unless the configuration permits other networks
 * [THREATS B-08].
 */

import { isIP } from 'node:net';
import { addressSet } from './address-set.ts';

/** A service to which requests may be sent. */
export interface EndpointOptions {
  /**
   * Scheme, host and port, for example `https://heat.example.org:8004`. Requests may use any path.
   */
  readonly url: string;
  /**
   * Networks to which the service's host name may resolve (`10.0.0.0/8`, `fd00::/8`, or one
   * address). Default: all public addresses. If `url` contains an address instead of a name, the
   * default is this address.
   */
  readonly addresses?: readonly string[];
  /** CA certificates for the service's certificate, in PEM. Default: the CAs of Node.js. */
  readonly ca?: Buffer;
}

/** A permitted service, in parsed form. */
export interface AllowedEndpoint {
  /** Normalised scheme, host and port. */
  readonly origin: string;
  readonly ca: Buffer | undefined;
  /** Whether the configuration permits a connection to this address. */
  permits(address: string): boolean;
}

/**
 * Networks that are not public. A host name may resolve to an address in such a network only if the
 * endpoint lists the network.
 */
const nonPublicNetworks = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
  '::/127',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2002::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
];

/**
 * Parses the permitted services. Returns a map from the origin of each service to the service.
 * @throws TypeError for an invalid address or network
 */
export function parseAllowedEndpoints(
  listed: readonly EndpointOptions[],
): ReadonlyMap<string, AllowedEndpoint> {
  const closed = addressSet(nonPublicNetworks);
  return new Map(
    listed.map(({ url, addresses, ca }) => {
      const origin = originOf(url);
      const own = isIP(hostOf(url)) === 0 ? [] : [hostOf(url)];
      const open = addressSet(addresses ?? own);
      const isNamed = addresses !== undefined || own.length > 0;
      const permits = (address: string): boolean =>
        isNamed ? open.has(address) : !closed.has(address);
      return [origin, { origin, ca, permits }];
    }),
  );
}

/**
 * Returns the origin of a URL.
 * @throws TypeError if it is not an http or https URL
 */
export function originOf(url: string): string {
  const { origin, protocol } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new TypeError('the URL must begin with http: or https:');
  return origin;
}

/** Returns the host of a URL, without the brackets around an IPv6 address. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, '');
}

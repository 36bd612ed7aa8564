/**
 * Listed endpoints: by scheme, host and port; of their addresses only public ones, unless the list
 * permits others [THREATS B-08].
 */

import { isIP } from 'node:net';
import { addressSet } from './address-set.ts';

/** A service that may be asked. */
export interface EndpointOptions {
  /** `https://heat.example.org:8004`; whatever path follows is for every request alike. */
  readonly url: string;
  /**
   * Networks that its name may lead to (`10.0.0.0/8`, `fd00::/8`, one address). Default: public
   * addresses, and the address itself where `url` has one in place of a name.
   */
  readonly addresses?: readonly string[];
  /** The authorities that sign its certificate, PEM. Default: those of Node. */
  readonly ca?: Buffer;
}

/** A listed service. */
export interface AllowedEndpoint {
  /** Scheme, host and port in their normal form. */
  readonly origin: string;
  readonly ca: Buffer | undefined;
  /** Whether a connection may be made to this address. */
  permits(address: string): boolean;
}

/** Neither public nor anybody's own to give: what no name leads to unless it is listed. */
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

/** The listed services by their origin. @throws TypeError for an address or network that is none */
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

/** @throws TypeError for what is no address of http or https */
export function originOf(url: string): string {
  const { origin, protocol } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('expected http or https');
  return origin;
}

/** The host without the brackets around an IPv6 address. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, '');
}

/**
 * Who is let in before anything is looked at: by the name that was asked for, and by address. A
 * page of another site can have a name of its own that leads here (DNS rebinding); its browser then
 * asks by that name [THREATS A-15].
 */

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { addressSet } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { CompleteOptions } from './options.ts';

/** Whether an address, or the name `localhost`, is this machine and nothing else. */
export function isLoopback(address: string): boolean {
  return /^(?:localhost|127\.[\d.]+|::1|::ffff:127\.[\d.]+)$/i.test(address);
}

/** The name in a header `Host`, without port, and as names are compared. */
function hostNameOf(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** Whether a header `Host` has an address, or `localhost`. */
export function isLocalName(host: string): boolean {
  const name = hostNameOf(host).replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

/** The part of a request that is known without reading it. */
type RequestOrigin = Pick<IncomingMessage, 'headers' | 'socket'>;

/** @throws SaltApiError ERR_HTTP_ADDRESS, ERR_HTTP_HOST */
export type HostGuard = (comer: RequestOrigin) => void;

/** Before every route, and before WebSocket. */
export function createHostGuard({
  host,
  hosts,
  authorizedIps,
}: Pick<CompleteOptions, 'host' | 'hosts' | 'authorizedIps'>): HostGuard {
  const addresses = authorizedIps === undefined ? undefined : addressSet(authorizedIps);
  const isNamed = createHostCheck(host, hosts);
  return ({ headers, socket }) => {
    if (addresses?.has(socket.remoteAddress ?? '') === false) {
      throw new SaltApiError('ERR_HTTP_ADDRESS', 'an address that is not listed');
    }
    if (!isNamed(headers.host)) throw new SaltApiError('ERR_HTTP_HOST', 'another host was asked');
  };
}

/** Browsers always say whom they ask; an address is no name that could lead here. */
function createHostCheck(
  host: string,
  hosts: readonly string[] | undefined,
): (asked: string | undefined) => boolean {
  if (hosts?.includes('*') || (hosts === undefined && !isLoopback(host))) return () => true;
  const names = new Set(hosts);
  return (asked) => asked === undefined || isLocalName(asked) || names.has(hostNameOf(asked));
}

/** Whether a request came over TLS, to this server or to the proxy before it. */
export function isSecure({ protocol }: FastifyRequest): boolean {
  return protocol === 'https';
}

/**
 * Checks a request by host name and client address before anything else. A page of another site can
 * use a name of its own that resolves to this server (DNS rebinding). Its browser then sends that
 * name in `Host` [THREATS A-15].
 */

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { addressSet } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { CompleteOptions } from './options.ts';

/** Whether an address, or the name `localhost`, always means this machine. */
export function isLoopback(address: string): boolean {
  return /^(?:localhost|127\.[\d.]+|::1|::ffff:127\.[\d.]+)$/i.test(address);
}

/** Returns the name in a `Host` header, without the port, in normalised form. */
function hostNameOf(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** Whether a `Host` header contains an address or `localhost`. */
export function isLocalName(host: string): boolean {
  const name = hostNameOf(host).replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

/** Part of a request that is available without reading its body. */
type RequestOrigin = Pick<IncomingMessage, 'headers' | 'socket'>;

/**
 * Checks a request.
 * @throws SaltApiError ERR_HTTP_ADDRESS, ERR_HTTP_HOST
 */
export type HostGuard = (comer: RequestOrigin) => void;

/** Returns the check that runs before every route and before WebSocket. */
export function createHostGuard({
  host,
  hosts,
  authorizedIps,
}: Pick<CompleteOptions, 'host' | 'hosts' | 'authorizedIps'>): HostGuard {
  const addresses = authorizedIps === undefined ? undefined : addressSet(authorizedIps);
  const isNamed = createHostCheck(host, hosts);
  return ({ headers, socket }) => {
    if (addresses?.has(socket.remoteAddress ?? '') === false) {
      throw new SaltApiError('ERR_HTTP_ADDRESS', 'client address not listed in authorized_ips');
    }
    if (!isNamed(headers.host)) throw new SaltApiError('ERR_HTTP_HOST', 'host not listed in hosts');
  };
}

/**
 * Returns the check of the `Host` header. Browsers always send it. An address is safe, because DNS
 * cannot redirect it.
 */
function createHostCheck(
  host: string,
  hosts: readonly string[] | undefined,
): (asked: string | undefined) => boolean {
  if (hosts?.includes('*') || (hosts === undefined && !isLoopback(host))) return () => true;
  const names = new Set(hosts);
  return (asked) => asked === undefined || isLocalName(asked) || names.has(hostNameOf(asked));
}

/** Whether a request arrived over TLS at this server or at the proxy before it. */
export function isSecure({ protocol }: FastifyRequest): boolean {
  return protocol === 'https';
}

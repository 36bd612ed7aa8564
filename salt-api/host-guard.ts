/**
 * Checks the host name and the client address of a request before anything else. A page of another
 * site can use a host name that resolves to this server (DNS rebinding). The browser then sends
 * this name in the header `Host`, and the check rejects the request [THREATS A-15].
 */

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { addressSet } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { CompleteOptions } from './options.ts';

/** Whether this address or name always refers to this machine. */
export function isLoopback(address: string): boolean {
  return /^(?:localhost|127\.[\d.]+|::1|::ffff:127\.[\d.]+)$/i.test(address);
}

/** Returns the name in a `Host` header in normalised form, without the port. */
function hostNameOf(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** Whether a `Host` header contains an IP address or `localhost`. */
export function isLocalName(host: string): boolean {
  const name = hostNameOf(host).replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

/** Properties of a request that are known without reading its body. */
type RequestOrigin = Pick<IncomingMessage, 'headers' | 'socket'>;

/**
 * Function that checks a request by its host name and address.
 * @throws SaltApiError ERR_HTTP_ADDRESS, ERR_HTTP_HOST
 */
export type HostGuard = (request: RequestOrigin) => void;

/** Creates the check that runs before every route and before WebSocket connections. */
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
    if (!isNamed(headers.host))
      throw new SaltApiError(
        'ERR_HTTP_HOST',
        'the option `hosts` does not list the requested host name',
      );
  };
}

/**
 * Creates the check of the header `Host`, which browsers always send. IP addresses are accepted,
 * because DNS cannot redirect them.
 */
function createHostCheck(
  host: string,
  hosts: readonly string[] | undefined,
): (asked: string | undefined) => boolean {
  if (hosts?.includes('*') || (hosts === undefined && !isLoopback(host))) return () => true;
  const names = new Set(hosts);
  return (asked) => asked === undefined || isLocalName(asked) || names.has(hostNameOf(asked));
}

/** Whether a request arrived over TLS, at this server or at the proxy in front of it. */
export function isSecure({ protocol }: FastifyRequest): boolean {
  return protocol === 'https';
}

/** What is this machine, or a plain address, and no name that a server of names could have made up. */
import { isIP } from 'node:net';

/** Whether an address, or the name `localhost`, is this machine and nothing else. */
export function isLoopback(address: string): boolean {
  return /^(?:localhost|127\.[\d.]+|::1|::ffff:127\.[\d.]+)$/i.test(address);
}

/** The name in a header `Host`, without port, and as names are compared. */
export function hostNameOf(host: string): string {
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
}

/** Whether a header `Host` has an address, or `localhost`. */
export function isLocalName(host: string): boolean {
  const name = hostNameOf(host).replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

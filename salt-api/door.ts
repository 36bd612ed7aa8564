/**
 * Who is let in before anything is looked at: by the name that was asked for, and by address. A
 * page of another site can have a name of its own that leads here (DNS rebinding); its browser then
 * asks by that name [THREATS A-15].
 */
import type { IncomingMessage } from 'node:http';
import { addressSet } from '../master/index.ts';
import { SaltApiError } from './errors.ts';
import { hostNameOf, isLocalName, isLoopback } from './local.ts';
import type { CompleteOptions } from './options.ts';

/** The part of a request that is known without reading it. */
type Comer = Pick<IncomingMessage, 'headers' | 'socket'>;

/** @throws SaltApiError ERR_HTTP_ADDRESS, ERR_HTTP_HOST */
export type Door = (comer: Comer) => void;

/** Before every route, and before WebSocket. */
export function createDoor({
  host,
  hosts,
  authorizedIps,
}: Pick<CompleteOptions, 'host' | 'hosts' | 'authorizedIps'>): Door {
  const addresses = authorizedIps === undefined ? undefined : addressSet(authorizedIps);
  const isNamed = namesOf(host, hosts);
  return ({ headers, socket }) => {
    // protection: any-http-address
    if (addresses?.has(socket.remoteAddress ?? '') === false) {
      throw new SaltApiError('ERR_HTTP_ADDRESS', 'an address that is not listed');
    }
    // protection: any-host
    if (!isNamed(headers.host)) throw new SaltApiError('ERR_HTTP_HOST', 'another host was asked');
  };
}

/** Browsers always say whom they ask; an address is no name that could lead here. */
function namesOf(
  host: string,
  hosts: readonly string[] | undefined,
): (asked: string | undefined) => boolean {
  if (hosts?.includes('*') || (hosts === undefined && !isLoopback(host))) return () => true;
  const names = new Set(hosts);
  return (asked) => asked === undefined || isLocalName(asked) || names.has(hostNameOf(asked));
}

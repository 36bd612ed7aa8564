import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { EdgeError } from '../errors.ts';
import { exporterLabel } from './handshake.ts';

/**
 * Returns keying material that both sides of a TLS connection derive from it [RFC 5705].
 * @throws EdgeError ERR_SITE_MESSAGE if the connection does not use TLS
 */
export function bindingOf(socket: Duplex): Buffer {
  if (socket instanceof TLSSocket) {
    return socket.exportKeyingMaterial(32, exporterLabel, Buffer.alloc(0));
  }
  const text =
    'the connection arrived without TLS; if a proxy ends TLS, set behind_proxy at the site';
  throw new EdgeError('ERR_SITE_MESSAGE', text);
}

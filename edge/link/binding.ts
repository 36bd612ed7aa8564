import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { EdgeError } from '../errors.ts';
import { exporterLabel } from './handshake.ts';

/**
 * Returns keying material of a TLS connection [RFC 5705]. Both sides derive the same bytes. With
 * TLS 1.3, every connection has different bytes. Earlier versions can give two connections the same
 * bytes, and are therefore rejected.
 * @throws EdgeError ERR_SITE_MESSAGE if the connection does not use TLS 1.3
 */
export function bindingOf(socket: Duplex): Buffer {
  if (socket instanceof TLSSocket && socket.getProtocol() === 'TLSv1.3') {
    return socket.exportKeyingMaterial(32, exporterLabel, Buffer.alloc(0));
  }
  const text =
    'the connection arrived without TLS 1.3; if a proxy ends TLS, set behind_proxy at the site';
  throw new EdgeError('ERR_SITE_MESSAGE', text);
}

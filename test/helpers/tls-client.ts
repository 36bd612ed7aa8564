/** Clients of TLS ports that do more than a usual client. */
import { once } from 'node:events';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect } from 'node:tls';
import type { ExecutionContext } from 'ava';
import { within } from './deadline.ts';

/** Returns the ClientHello that Node.js sends. */
export function clientHello(options: ConnectionOptions = {}): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = new Duplex({
      read() {},
      write(bytes: Buffer, _encoding, done) {
        resolve(bytes);
        done();
      },
    });
    connect({ ...options, socket, rejectUnauthorized: false }).on('error', () => {});
  });
}

/** Connects and requests a second handshake. Returns the error, or `renegotiated`. */
export async function renegotiation(t: ExecutionContext, port: number): Promise<string> {
  const socket = connect({ port, maxVersion: 'TLSv1.2', rejectUnauthorized: false });
  t.teardown(() => socket.destroy());
  await within('the handshake', once(socket, 'secureConnect'));
  const outcome = new Promise<string>((resolve) => {
    socket.once('error', ({ message }) => resolve(message));
    socket.renegotiate({ rejectUnauthorized: false }, () => resolve('renegotiated'));
  });
  return within('the outcome', outcome);
}

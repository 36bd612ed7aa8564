/** The hello of a site, which its TLS connection protects from being repeated. */

import { readFileSync } from 'node:fs';
import { type ConnectionOptions, TLSSocket } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import { bindingOf } from '#edge/link/binding.ts';
import { signHello } from '#edge/link/handshake.ts';
import { makeCertificate } from '../helpers/certificate.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startCentre } from './edge-stage.ts';
import { helloOf, joinRaw, RawLink } from './raw-site.ts';

/** Starts a centre with TLS and joins a site. */
async function stage(t: ExecutionContext) {
  const { certificate, key } = makeCertificate(temporaryDirectory(t));
  const plain = await startCentre(t);
  const identity = await joinRaw(t, plain, 'north');
  await plain.server.close();
  const api = { host: '127.0.0.1', hosts: ['*'], port: 0, sslCrt: certificate, sslKey: key };
  const started = await startCentre(t, { api }, plain.directory);
  const centre = { ...started, url: `https://localhost:${started.port}` };
  const ca = readFileSync(certificate);
  const open = (options: ConnectionOptions = {}): Promise<RawLink> =>
    RawLink.open(t, centre, {}, { ca, ...options });
  return { identity, open };
}

function rawOf({ raw }: RawLink): TLSSocket {
  if (raw instanceof TLSSocket) return raw;
  throw new Error('the connection does not use TLS');
}

test('a recorded hello is refused on another TLS connection, also if it resumes the session', async (t) => {
  const { identity, open } = await stage(t);
  const link = await open();
  const hello = helloOf('north', { isBound: true });
  const signed = signHello(identity.key, hello, bindingOf(rawOf(link)));
  link.socket.send(signed);
  await link.next();
  t.true(await link.isWelcome());
  for (const session of [undefined, rawOf(link).getSession()]) {
    const other = await open(session === undefined ? {} : { session });
    t.is(rawOf(other).isSessionReused(), session !== undefined);
    other.socket.send(signed);
    await other.next();
    t.is(await other.closed, 4403);
  }
});

test('a hello that is bound to a connection with TLS 1.2 is refused', async (t) => {
  const { identity, open } = await stage(t);
  const link = await open({ maxVersion: 'TLSv1.2' });
  t.throws(() => bindingOf(rawOf(link)), { code: 'ERR_SITE_MESSAGE' });
  const hello = helloOf('north', { isBound: true });
  link.socket.send(signHello(identity.key, hello, Buffer.alloc(32)));
  t.is(await link.closed, 4400);
});

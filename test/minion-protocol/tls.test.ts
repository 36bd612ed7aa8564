/** TLS on the ports of TCP and WebSocket, and who is let in. */

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConnectionOptions, connect } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import type { TlsOptions } from '../../minion-protocol/index.ts';
import { TransportError } from '../../minion-protocol/transport/transport.ts';
import { until, within } from '../helpers/deadline.ts';
import {
  ANSWER,
  OPENING,
  REQUEST,
  STREAMS,
  type Stream,
  SUBSCRIPTION,
  startStream,
} from '../helpers/stream-masters.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { connectRaw, HOST, type Master, RawPeer } from '../helpers/zeromq-master.ts';

const served: TlsOptions = {
  certFile: file('master.pem'),
  keyFile: file('master.key'),
  caFile: file('ca.pem'),
  clientCertificates: 'none',
};
const minion = { cert: readFileSync(file('minion.pem')), key: readFileSync(file('minion.key')) };
const stranger = {
  cert: readFileSync(file('stranger.pem')),
  key: readFileSync(file('stranger.key')),
};

for (const stream of STREAMS) {
  test(`${stream}: requests and publications travel over TLS`, async (t) => {
    const master = await startStream(t, stream, { tls: served });
    t.true(await isServed(t, stream, master));
    const subscriber = await secure(t, master.publishPort);
    subscriber.write(SUBSCRIPTION[stream]);
    await until('a subscriber', () => master.transport.subscribers().length === 1);
    const envelope = Buffer.alloc(3_000_000, 'envelope ');
    master.transport.publish({ envelope, minionIds: null });
    await until('it', () => subscriber.receivedBytes > envelope.length);
    t.true(subscriber.received.subarray(-envelope.length).equals(envelope));
    t.is(master.transport.subscribers()[0]?.address, HOST);
  });

  test(`${stream}: a renewed certificate is taken over on both ports, and a false one is not`, async (t) => {
    const directory = temporaryDirectory(t);
    const [certFile, keyFile] = [join(directory, 'c.pem'), join(directory, 'k.pem')];
    copyFileSync(file('master.pem'), certFile);
    copyFileSync(file('master.key'), keyFile);
    const master = await startStream(t, stream, {
      tls: { ...served, certFile, keyFile, renewalIntervalMs: 60_000 },
    });
    copyFileSync(file('minion.pem'), certFile);
    await t.throwsAsync(async () => master.transport.renewCertificate?.(), {
      instanceOf: TransportError,
      code: 'ERR_TLS',
    });
    for (const port of [master.requestPort, master.publishPort]) {
      t.is(
        await shownOn(port),
        new X509Certificate(readFileSync(file('master.pem'))).fingerprint256,
      );
    }
    copyFileSync(file('minion.key'), keyFile);
    t.deepEqual(await master.transport.renewCertificate?.(), [certFile]);
    for (const port of [master.requestPort, master.publishPort]) {
      t.is(await shownOn(port), new X509Certificate(minion.cert).fingerprint256);
    }
    t.true(await isServed(t, stream, master));
  });

  test(`${stream}: whoever speaks no TLS is refused on both ports`, async (t) => {
    const master = await startStream(t, stream, { tls: served });
    for (const port of [master.requestPort, master.publishPort]) {
      const plain = await connectRaw(t, port);
      plain.write(OPENING[stream], REQUEST[stream]);
      await plain.closed('without TLS');
    }
    t.deepEqual(master.transport.refusals(), { 'tls-handshake': 2 });
    t.true(await isServed(t, stream, master));
  });

  test(`${stream}: without a certificate nobody passes where one is required`, async (t) => {
    const master = await startStream(t, stream, {
      tls: { ...served, clientCertificates: 'required' },
    });
    t.false(await isServed(t, stream, master));
    t.false(await isServed(t, stream, master, stranger));
    t.true(await isServed(t, stream, master, minion));
    t.deepEqual(master.transport.subscribers(), []);
  });

  test(`${stream}: where certificates are optional a false one is refused`, async (t) => {
    const master = await startStream(t, stream, {
      tls: { ...served, clientCertificates: 'optional' },
    });
    t.true(await isServed(t, stream, master));
    t.false(await isServed(t, stream, master, stranger));
    t.deepEqual(master.transport.refusals(), { 'tls-certificate': 1 });
    t.true(await isServed(t, stream, master, minion));
  });
}

test('a version that was asked for is the only one', async (t) => {
  const master = await startStream(t, 'tcp', { tls: { ...served, onlyVersion: 'TLSv1.2' } });
  t.false(await isServed(t, 'tcp', master, { minVersion: 'TLSv1.3' }));
  t.true(await isServed(t, 'tcp', master));
});

test('ciphers that were asked for are the only ones', async (t) => {
  const only = {
    ...served,
    onlyVersion: 'TLSv1.2',
    ciphers: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  } as const;
  const master = await startStream(t, 'tcp', { tls: only });
  t.false(await isServed(t, 'tcp', master, { ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' }));
  t.true(await isServed(t, 'tcp', master));
});

test('half a handshake is closed after 30 seconds, and at once with the listener', async (t) => {
  const clock = { now: 1_700_000_000_000 };
  const options = { tls: served, now: () => clock.now, sweepIntervalMs: 5 };
  const master = await startStream(t, 'tcp', options);
  const half = await connectRaw(t, master.requestPort);
  half.write(Buffer.from('1603010200010001fc0303', 'hex'));
  t.true(await isServed(t, 'tcp', master));
  clock.now += 31_000;
  await half.closed('half a handshake');
  t.is(master.transport.refusals()['handshake-timeout'], 1);
  const other = await connectRaw(t, master.publishPort);
  t.true(await isServed(t, 'tcp', master));
  await within('the end', master.transport.close());
  await other.closed('with the listener');
});

for (const [title, wrong] of [
  ['a certificate that is not there', { certFile: file('none.pem') }],
  ['a certificate that is none', { certFile: file('README.md') }],
  ['the key of another', { keyFile: file('minion.key') }],
  ['ciphers that nobody has', { ciphers: 'NONE-SUCH' }],
] as const) {
  test(`${title} is told at the start`, async (t) => {
    await t.throwsAsync(startStream(t, 'tcp', { tls: { ...served, ...wrong } }), {
      instanceOf: TransportError,
      code: 'ERR_TLS',
    });
  });
}

function file(name: string): string {
  return join('test', 'fixtures', 'tls', name);
}

async function secure(
  t: ExecutionContext,
  port: number,
  options: ConnectionOptions = {},
): Promise<RawPeer> {
  const ca = readFileSync(file('ca.pem'));
  const socket = connect({ host: HOST, port, ca, ...options });
  t.teardown(() => socket.destroy());
  return new RawPeer(socket);
}

/** Whether a minion with this certificate is answered, or its connection ended. */
async function isServed(
  t: ExecutionContext,
  stream: Stream,
  master: Master,
  options: ConnectionOptions = {},
): Promise<boolean> {
  const peer = await secure(t, master.requestPort, options);
  peer.write(OPENING[stream], REQUEST[stream]);
  const answered = (): boolean => peer.received.subarray(-ANSWER.length).equals(ANSWER);
  await until('an answer or the end', () => answered() || peer.socket.closed);
  peer.socket.destroy();
  return answered();
}

/** Fingerprint of the certificate that a new connection gets. */
async function shownOn(port: number): Promise<string | undefined> {
  const peer = connect({ port, host: HOST, rejectUnauthorized: false });
  await once(peer, 'secureConnect');
  const fingerprint = peer.getPeerX509Certificate()?.fingerprint256;
  peer.destroy();
  return fingerprint;
}

/** A certificate that is renewed while the HTTP API is served. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import type { SaltApiTls } from '../../salt-api/index.ts';
import { until } from '../helpers/deadline.ts';
import { type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

interface Site {
  readonly running: RunningApi;
  readonly tls: SaltApiTls;
  /** Puts a pair of the fixtures in place, one file after the other. */
  renew(name: string): void;
  /** Fingerprint of the certificate that a new connection gets. */
  served(): Promise<string | undefined>;
}

function fixture(name: string): string {
  return fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));
}

function fingerprintOf(name: string): string {
  return new X509Certificate(readFileSync(fixture(name))).fingerprint256;
}

async function startSite(t: ExecutionContext, renewalIntervalMs: number): Promise<Site> {
  const directory = temporaryDirectory(t);
  const [certificate, key] = [path.join(directory, 'c.pem'), path.join(directory, 'k.pem')];
  const renew = (name: string): void => {
    copyFileSync(fixture(`${name}.pem`), certificate);
    copyFileSync(fixture(`${name}.key`), key);
  };
  renew('master');
  const tls = { certificate, key, renewalIntervalMs };
  const running = await startApi(t, { minions: [], options: { tls } });
  const served = async (): Promise<string | undefined> => {
    const peer = connect({ port: running.port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(peer, 'secureConnect');
    const fingerprint = peer.getPeerX509Certificate()?.fingerprint256;
    peer.destroy();
    return fingerprint;
  };
  return { running, tls, renew, served };
}

test('a renewed certificate is taken over at once when that is asked for', async (t) => {
  const { running, tls, renew, served } = await startSite(t, 60_000);
  t.is(await served(), fingerprintOf('master.pem'));
  t.deepEqual(await running.api.renewCertificate(), []);
  renew('minion');
  t.deepEqual(await running.api.renewCertificate(), [tls.certificate]);
  t.is(await served(), fingerprintOf('minion.pem'));
});

test('a renewed certificate is taken over without anybody asking', async (t) => {
  const { renew, served } = await startSite(t, 20);
  renew('minion');
  let last: string | undefined;
  const look = async (): Promise<void> => {
    while (last !== fingerprintOf('minion.pem')) last = await served();
  };
  const looking = look();
  await until('the certificate', () => last === fingerprintOf('minion.pem'));
  await looking;
  t.pass();
});

test('a certificate that does not fit its key leaves the one before in force', async (t) => {
  const { running, tls, renew, served } = await startSite(t, 60_000);
  copyFileSync(fixture('minion.pem'), tls.certificate);
  await t.throwsAsync(running.api.renewCertificate());
  t.is(await served(), fingerprintOf('master.pem'));
  writeFileSync(tls.certificate, 'nothing of the kind');
  await t.throwsAsync(running.api.renewCertificate());
  t.is(await served(), fingerprintOf('master.pem'));
  renew('minion');
  t.deepEqual(await running.api.renewCertificate(), [tls.certificate]);
  t.is(await served(), fingerprintOf('minion.pem'));
});

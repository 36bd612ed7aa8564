/** The server itself: TLS, mounting, health, and what its log says. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { freePort } from '../../bench/free-port.ts';
import { createLogger } from '../../master/index.ts';
import { createSaltApi, SaltApiError, type SaltApiOptions } from '../../salt-api/index.ts';
import { json, password, send, startApi } from '../helpers/salt-api.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));

function fingerprintOf(name: string): string {
  return new X509Certificate(readFileSync(fixture(name))).fingerprint256;
}
const credentials = { username: 'admin', password, eauth: 'sharedsecret' };

test('over TLS the cookie is for TLS alone', async (t) => {
  const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
  const { port } = await startApi(t, { minions: [], options: { tls } });
  const cookie = await new Promise((resolve, reject) => {
    const options = { port, method: 'POST', path: '/login', headers: json() };
    const outgoing = httpsRequest({ ...options, rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.headers['set-cookie']?.[0]);
    });
    outgoing.on('error', reject);
    outgoing.end(JSON.stringify(credentials));
  });
  t.regex(String(cookie), /; Secure$/);
});

test('it answers in the server of a service, below a prefix', async (t) => {
  const { master } = await startApi(t, { minions: [] });
  const api = await createSaltApi(master, { rootPrefix: '/salt' });
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/salt')) api.handle(request, response);
    else response.end('mine');
  });
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await api.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  t.is((await send(port, { path: '/' })).text, 'mine');
  const answer = await send(port, {
    method: 'POST',
    path: '/salt/login',
    headers: json(),
    body: credentials,
  });
  t.is(answer.status, 200);
  const stats = await send(port, {
    path: '/salt/stats',
    headers: json(String(answer.headers['x-auth-token'])),
  });
  t.is(stats.status, 200);
});

test("without options it is served as the master's configuration says", async (t) => {
  const port = await freePort();
  const section = { port, sslCrt: fixture('master.pem'), sslKey: fixture('master.key') };
  const options = { port: 0 };
  const { master } = await startApi(t, { minions: [], options, config: { api: section } });
  const api = await createSaltApi(master);
  t.teardown(() => api.close());
  t.like(await api.listen(), { address: '0.0.0.0', port });
  const peer = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  t.teardown(() => peer.destroy());
  await once(peer, 'secureConnect');
  t.is(peer.getPeerX509Certificate()?.fingerprint256, fingerprintOf('master.pem'));
});

test('plain HTTP is served on loopback alone, unless a program says otherwise', async (t) => {
  const { master } = await startApi(t, { minions: [] });
  const listenWith = async (options: SaltApiOptions): Promise<AddressInfo> => {
    const api = await createSaltApi(master, options);
    t.teardown(() => api.close());
    return api.listen();
  };
  for (const options of [{}, { host: '0.0.0.0' }, { host: '::' }]) {
    const error = await t.throwsAsync(listenWith(options), { code: 'ERR_HTTP_LISTEN' });
    t.true(error?.message.includes('disableSsl'));
  }
  t.is((await listenWith({ host: '127.0.0.1' })).address, '127.0.0.1');
  t.is((await listenWith({ disableSsl: true })).address, '0.0.0.0');
});

test('a port that is taken is told', async (t) => {
  const { master, port } = await startApi(t, { minions: [] });
  const second = await createSaltApi(master, { host: '127.0.0.1', port });
  t.teardown(() => second.close());
  await t.throwsAsync(second.listen(), { instanceOf: SaltApiError, code: 'ERR_HTTP_LISTEN' });
});

test('it is ready while the master runs, and healthy as long as it answers', async (t) => {
  const { ask, master } = await startApi(t, { minions: [] });
  t.deepEqual((await ask({ path: '/ready' })).json, { status: 'ready' });
  await master.close();
  const { status, json: body } = await ask({ path: '/ready' });
  t.is(status, 503);
  t.deepEqual(body, { status: 'not ready' });
  t.is((await ask({ path: '/health' })).status, 200);
  const login = await ask({ method: 'POST', path: '/login', headers: json(), body: credentials });
  t.is(login.status, 503);
});

test('every answer forbids what browsers could make of it', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  for (const path of ['/', '/nosuch', '/login']) {
    const { headers } = await ask({ path });
    t.like(headers, { 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' });
    t.is(headers.server, undefined);
  }
});

test('without sessions, commands bring their credentials', async (t) => {
  const { ask } = await startApi(t, { minions: [], options: { enableSessions: false } });
  for (const path of ['/login', '/logout', '/minions', '/jobs']) {
    t.is((await ask({ path })).status, 404, path);
  }
  const body = { ...credentials, client: 'runner', fun: 'jobs.list_jobs' };
  t.is((await ask({ method: 'POST', path: '/run', headers: json(), body })).status, 200);
});

test('neither passwords nor tokens come into the log', async (t) => {
  let text = '';
  const destination = {
    write: (line: string) => {
      text += line;
    },
  };
  const logger = createLogger('trace', destination);
  const { ask, login, run } = await startApi(t, { minions: [], options: { logger } });
  const token = await login();
  await ask({ path: `/events?token=${token.slice(1)}` });
  await ask({ path: `/nosuch?token=${token}`, headers: { cookie: `session_id=${token}` } });
  await run(token, { client: 'local', fun: 'test.ping', arg: ['planted'] });
  await run(token, { ...credentials, client: 'runner', fun: 'nope.nope' });
  t.regex(text, /"http request"/);
  t.false(text.includes(token.slice(1)));
  t.notRegex(text, /planted|s3cret/);
});

/** The HTTP server itself: TLS, mounting in another server, health checks, and its log. */

import { spawnSync } from 'node:child_process';
import { createPublicKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type AddressInfo, connect as connectPlainly } from 'node:net';
import path from 'node:path';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createBridge } from '#guests';
import { createLogger } from '#master';
import { createSaltApi, SaltApiError, type SaltApiOptions, type SaltApiTls } from '#salt-api';
import { packTar } from '#salt-api/tar.ts';
import { freePort } from '../../bench/free-port.ts';
import { until } from '../helpers/deadline.ts';
import { json, password, type RunningApi, send, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));

function fingerprintOf(name: string): string {
  return new X509Certificate(readFileSync(fixture(name))).fingerprint256;
}
const credentials = { username: 'admin', password, eauth: 'sharedsecret' };

test('over TLS the cookie has the Secure attribute', async (t) => {
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

test('the API can run in the server of a service, below a prefix', async (t) => {
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

test("without options the API follows the master's configuration", async (t) => {
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

test('plain HTTP is limited to loopback, unless a program permits more', async (t) => {
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

test('an occupied port is reported', async (t) => {
  const { master, port } = await startApi(t, { minions: [] });
  const second = await createSaltApi(master, { host: '127.0.0.1', port });
  t.teardown(() => second.close());
  await t.throwsAsync(second.listen(), { instanceOf: SaltApiError, code: 'ERR_HTTP_LISTEN' });
});

test('a connection with too many unanswered requests ends, and they are not processed', async (t) => {
  const { master, port } = await startApi(t, { minions: [] });
  const api = await createSaltApi(master, {});
  const server = createServer((request, response) => api.handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const answersTo = async (port: number, count: number): Promise<number> => {
    const socket = connectPlainly(port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (text.split('HTTP/1.1 404').length > count) socket.destroy();
    });
    socket.on('error', () => {});
    socket.write('GET /nothing-here HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(count));
    // `once` would reject, because the connection ends with a reset.
    await new Promise((resolve) => socket.once('close', resolve));
    return text.split('HTTP/1.1 404').length - 1;
  };
  for (const each of [port, (server.address() as AddressInfo).port]) {
    t.is(await answersTo(each, 8), 8);
    t.is(await answersTo(each, 2_000), 0);
  }
  // Requests that are sent after the answers to earlier ones have no such limit.
  const socket = connectPlainly(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  for (let count = 0; count < 20; count += 1) {
    socket.write('GET /nothing-here HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    const [answer] = await once(socket, 'data');
    t.regex(String(answer), /^HTTP\/1\.1 404/);
  }
});

test('the API is ready while the master runs, and healthy while it responds', async (t) => {
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

test('every response forbids browsers to interpret it', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  for (const path of ['/', '/nosuch', '/login']) {
    const { headers } = await ask({ path });
    t.like(headers, { 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' });
    t.is(headers.server, undefined);
  }
});

test('without a session, commands must contain credentials', async (t) => {
  const { ask } = await startApi(t, { minions: [], options: { enableSessions: false } });
  for (const path of ['/login', '/logout', '/minions', '/jobs']) {
    t.is((await ask({ path })).status, 404, path);
  }
  const body = { ...credentials, client: 'runner', fun: 'jobs.list_jobs' };
  t.is((await ask({ method: 'POST', path: '/run', headers: json(), body })).status, 200);
});

test('passwords and tokens do not appear in the log', async (t) => {
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
  for (const path of [`/ws/${token}`, `/ws/${token}/x`]) t.is((await ask({ path })).status, 404);
  await ask({ path: `/nosuch?token=${token}`, headers: { cookie: `session_id=${token}` } });
  await run(token, { client: 'local', fun: 'test.ping', arg: ['planted'] });
  await run(token, { ...credentials, client: 'runner', fun: 'nope.nope' });
  t.regex(text, /"http request"/);
  t.false(text.includes(token.slice(1)));
  t.notRegex(text, /planted|s3cret/);
});

// The certificate is renewed while the HTTP API is running.

interface Site {
  readonly running: RunningApi;
  readonly tls: SaltApiTls;
  /** Replaces the certificate and the key by a pair of the fixtures, one file after the other. */
  renew(name: string): void;
  /** Returns the fingerprint of the certificate that a new connection receives. */
  served(): Promise<string | undefined>;
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

test('a renewed certificate is used at once on request', async (t) => {
  const { running, tls, renew, served } = await startSite(t, 60_000);
  t.is(await served(), fingerprintOf('master.pem'));
  t.deepEqual(await running.api.renewCertificate(), []);
  renew('minion');
  t.deepEqual(await running.api.renewCertificate(), [tls.certificate]);
  t.is(await served(), fingerprintOf('minion.pem'));
});

test('a renewed certificate is used without a request', async (t) => {
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

test('a certificate that does not match its key is ignored, and the previous one stays', async (t) => {
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

const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

async function start(t: ExecutionContext): Promise<RunningApi> {
  const directory = temporaryDirectory(t);
  const folder = path.join(directory, 'static');
  mkdirSync(path.join(folder, 'scripts'), { recursive: true });
  writeFileSync(path.join(directory, 'index.html'), '<p>app</p>');
  writeFileSync(path.join(directory, 'secret.txt'), 'secret');
  writeFileSync(path.join(folder, 'scripts', 'Api.js'), 'export {};');
  writeFileSync(path.join(folder, 'main.css'), 'p {}');
  writeFileSync(path.join(folder, 'icon.png'), 'png');
  writeFileSync(path.join(folder, '.hidden'), 'secret');
  symlinkSync(path.join(directory, 'secret.txt'), path.join(folder, 'link.txt'));
  symlinkSync(directory, path.join(folder, 'up'));
  const app = path.join(directory, 'index.html');
  return startApi(t, { minions: [], options: { static: folder, app } });
}

test('files are served with the content types that browsers expect', async (t) => {
  const { ask } = await start(t);
  for (const [file, type] of [
    ['scripts/Api.js', /^text\/javascript/],
    ['main.css', /^text\/css/],
    ['icon.png', /^image\/png/],
  ] as const) {
    const { status, headers } = await ask({ path: `/static/${file}`, headers: browser });
    t.is(status, 200);
    t.regex(String(headers['content-type']), type);
    t.is(headers['x-content-type-options'], 'nosniff');
    const since = { 'if-modified-since': String(headers['last-modified']) };
    t.is((await ask({ path: `/static/${file}`, headers: since })).status, 304);
  }
});

test('static paths serve no other files, and missing files are 404', async (t) => {
  const { ask } = await start(t);
  for (const file of [
    'minions.txt',
    '',
    'scripts',
    'scripts/',
    '../secret.txt',
    '..%2fsecret.txt',
    '%2e%2e/secret.txt',
    'scripts/../../secret.txt',
    'link.txt',
    'up/secret.txt',
    '.hidden',
    '%00',
    '/etc/passwd',
    '..\\secret.txt',
    'constructor',
  ]) {
    const answer = await ask({ path: `/static/${file}`, headers: { accept: 'text/plain' } });
    t.is(answer.status, 404, file);
    t.false(answer.text.includes('secret'));
  }
  t.is((await ask({ path: '/static/%zz' })).status, 400);
});

test('browsers get the app page, and programs get the API', async (t) => {
  const { ask, login } = await start(t);
  for (const where of ['/', '/?id=2026#job', '/stats', '/nosuch', '/login']) {
    t.is((await ask({ path: where, headers: browser })).text, '<p>app</p>', where);
  }
  for (const where of ['/app', '/app/x/y']) t.is((await ask({ path: where })).text, '<p>app</p>');
  for (const headers of [{}, { accept: '*/*' }, json()]) {
    t.like((await ask({ path: '/', headers })).json, { return: 'Welcome' });
  }
  t.is((await ask({ path: '/stats', headers: { accept: 'application/json' } })).status, 401);
  t.is((await ask({ path: '/stats', headers: json(await login()) })).status, 200);
});

test('the start fails if a file of an option does not exist', async (t) => {
  const { master, directory } = await startApi(t, { minions: [] });
  const missing = path.join(directory, 'missing');
  for (const options of [
    { static: missing },
    { app: missing },
    { favicon: missing },
    { tls: { certificate: missing, key: missing } },
  ]) {
    await t.throwsAsync(createSaltApi(master, options), {
      instanceOf: SaltApiError,
      code: 'ERR_HTTP_LISTEN',
    });
  }
});

// The content of `/metrics`, and the check of who may read it.

const names = (text: string): string[] =>
  [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, it = '']) => it);

async function read(api: Pick<RunningApi, 'ask'>): Promise<string> {
  const { status, text } = await api.ask({ path: '/metrics' });
  if (status !== 200) throw new Error(`/metrics: ${status}`);
  return text;
}

const figure = (text: string, name: string): number => {
  const line = text.split('\n').find((it) => it.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
};

test('docs/metrics.md names exactly the exported metrics', async (t) => {
  const config = { bridge: { guests: {} } };
  const text = await read(await startApi(t, { config, extensions: [createBridge()] }));
  const document = readFileSync(
    fileURLToPath(new URL('../../docs/metrics.md', import.meta.url)),
    'utf8',
  );
  const documented = [...document.slice(document.indexOf('| name')).matchAll(/^\| `(\w+)`/gm)].map(
    ([, name]) => name,
  );
  // This master is neither a site nor a centre.
  const ofSites = /^saltbridge_(?:edge|sites?)_/;
  t.deepEqual(names(text).sort(), documented.filter((name = '') => !ofSites.test(name)).sort());
});

test('a job is counted and timed from its publication to its last return', async (t) => {
  const api = await startApi(t, { pending: ['new1'], silent: ['gone1'] });
  const before = await read(api);
  t.is(figure(before, 'saltbridge_keys{state="accepted"}'), 3);
  t.is(figure(before, 'saltbridge_keys{state="pending"}'), 1);
  t.true(figure(before, 'saltbridge_authentications_total{outcome="accept"}') >= 2);
  t.is(figure(before, 'saltbridge_job_first_return_seconds_count'), 0);
  const token = await api.login();
  const ping = { client: 'local', tgt: ['web1', 'db1'], fun: 'test.ping' };
  t.is((await api.run(token, ping)).status, 200);
  const after = await read(api);
  t.is(figure(after, 'saltbridge_job_first_return_seconds_count'), 1);
  t.is(figure(after, 'saltbridge_job_last_return_seconds_count'), 1);
  t.is(figure(after, 'saltbridge_job_last_return_seconds_bucket{le="+Inf"}'), 1);
  t.is(figure(after, 'saltbridge_returns_total'), 2);
  t.is(figure(after, 'saltbridge_requests_total{cmd="_return",outcome="answered"}'), 2);
  t.true(figure(after, 'saltbridge_events_total{origin="master"}') > 0);
  t.true(figure(after, 'saltbridge_store_operation_seconds_count{operation="write"}') > 0);
  t.true(figure(after, 'saltbridge_http_answers_total{status="2xx"}') >= 3);
});

test('no data of a minion becomes a label', async (t) => {
  const api = await startApi(t, {
    functions: {
      'my.event': async (_arg, { fire }) => {
        await fire('my/own/tag', {});
        return true;
      },
    },
  });
  const token = await api.login();
  await api.run(token, { client: 'local', tgt: 'web1', fun: 'my.event' });
  const text = await read(api);
  t.false(text.includes('my/own'));
  t.false(text.includes('web1'));
  t.is(figure(text, 'saltbridge_signals_denied_total'), 1);
});

test('only clients on this machine can read metrics, without a proxy and under its own name', async (t) => {
  const { ask } = await startApi(t, { options: { hosts: ['*'] } });
  t.is((await ask({ path: '/metrics' })).status, 200);
  const refused: Record<string, string>[] = [
    { 'x-forwarded-for': '10.0.0.1' },
    { forwarded: 'for=10.0.0.1' },
    { via: '1.1 proxy' },
    { host: 'rebound.example' },
  ];
  for (const headers of refused) {
    t.is((await ask({ path: '/metrics', headers })).status, 404, JSON.stringify(headers));
  }
});

test('with a configured token, only its holders can read metrics', async (t) => {
  const file = `${temporaryDirectory(t)}/token`;
  writeFileSync(file, 'a-token-of-some-length\n');
  const { ask, login } = await startApi(t, { options: { metrics: file } });
  const as = async (headers: Record<string, string>): Promise<number> =>
    (await ask({ path: '/metrics', headers })).status;
  t.is(await as({ authorization: 'Bearer a-token-of-some-length' }), 200);
  t.is(await as({}), 401);
  t.is(await as({ authorization: 'Bearer another-token-of-length' }), 401);
  t.is(await as(json(await login())), 401);
});

test('a token that could be guessed is refused', async (t) => {
  const file = `${temporaryDirectory(t)}/token`;
  writeFileSync(file, 'short\n');
  await t.throwsAsync(startApi(t, { options: { metrics: file } }), { code: 'ERR_HTTP_LISTEN' });
});

test('disabled metrics have no path', async (t) => {
  const { ask } = await startApi(t, { options: { metrics: 'off' } });
  t.is((await ask({ path: '/metrics' })).status, 404);
});

/** Returns the files of an archive, unpacked by tar. */
function unpack(t: ExecutionContext, archive: Buffer): { pub: string; pem: string } {
  const directory = temporaryDirectory(t);
  const file = path.join(directory, 'keys.tar');
  writeFileSync(file, archive);
  const { status, stderr } = spawnSync('tar', ['-xf', file, '-C', directory]);
  t.is(status, 0, String(stderr));
  const read = (name: string): string => readFileSync(path.join(directory, name), 'utf8');
  return { pub: read('minion.pub'), pem: read('minion.pem') };
}

test('tar can read a created archive', (t) => {
  const members = [
    { name: 'minion.pub', content: Buffer.alloc(0), mode: 0o644 },
    { name: 'minion.pem', content: Buffer.from('x'.repeat(1000)), mode: 0o400 },
  ];
  t.deepEqual(unpack(t, packTar(members, new Date(0))), { pub: '', pem: 'x'.repeat(1000) });
});

test('a key pair is created and accepted, and returned only to the caller', async (t) => {
  const { ask, master, eventsDuring } = await startApi(t, { minions: [] });
  const make = (more: object): ReturnType<typeof ask> =>
    ask({ method: 'POST', path: '/keys', headers: json(), body: { ...credentials, ...more } });
  let answer: Awaited<ReturnType<typeof ask>> | undefined;
  const events = await eventsDuring(async () => {
    answer = await make({ mid: 'newbox' });
  });
  t.is(answer?.status, 200);
  t.is(answer?.headers['content-type'], 'application/x-tar');
  t.is(answer?.headers['content-disposition'], 'attachment; filename="saltkeys-newbox.tar"');
  const { pub, pem } = unpack(t, Buffer.from(answer?.text ?? ''));
  t.is(createPublicKey(pem).export({ type: 'spki', format: 'pem' }), pub);
  const [key] = await master.keys.list();
  t.like(key, { id: 'newbox', state: 'accepted' });
  t.is(key?.publicKey.trim(), pub.trim());
  t.false(JSON.stringify(events).includes('PRIVATE KEY'));
  const again = unpack(t, Buffer.from((await make({ mid: 'newbox' })).text));
  t.deepEqual(again, { pub: '', pem: '' });
  t.is((await master.keys.list())[0]?.publicKey, key?.publicKey);
  const forced = unpack(t, Buffer.from((await make({ mid: 'newbox', force: true })).text));
  t.is((await master.keys.list())[0]?.publicKey.trim(), forced.pub.trim());
  t.not(forced.pub, pub);
});

test('a denied or impossible request leaves no key behind', async (t) => {
  const { ask, master } = await startApi(t, { minions: [] });
  const make = async (body: object): Promise<number> =>
    (await ask({ method: 'POST', path: '/keys', headers: json(), body })).status;
  t.is(await make({ mid: 'x' }), 401);
  t.is(await make({ ...credentials, mid: 'x', password: 'wrong' }), 401);
  t.is(await make({ ...credentials, mid: 'x', username: 'limited' }), 401);
  t.is(await make({ ...credentials }), 400);
  t.is(await make({ ...credentials, mid: '../x' }), 400);
  t.is(await make({ ...credentials, mid: 'x', keysize: 512 }), 400);
  for (const keysize of [{ a: 1 }, [{}]]) {
    t.is(await make({ ...credentials, mid: 'x', keysize }), 400);
  }
  t.deepEqual(await master.keys.list(), []);
});

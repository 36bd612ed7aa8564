/** Who is let in at all: by the name that was asked for, and from where. */
import test from 'ava';
import type { SaltApiOptions } from '../../salt-api/index.ts';
import { json, password, type RunningApi, send, startApi } from '../helpers/salt-api.ts';

const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** The status for who asks a host by this name. */
async function askedAs({ port }: RunningApi, host: string, path = '/'): Promise<number> {
  return (await send(port, { path, headers: { host } })).status;
}

/** The same for who wants to become a WebSocket. */
async function upgradedAs({ port }: RunningApi, host: string, token: string): Promise<number> {
  const headers = { host, 'x-auth-token': token, upgrade: 'websocket', connection: 'Upgrade' };
  return (await send(port, { path: '/ws', headers })).status;
}

test('on a loopback address, a name that is not this host is refused at every path', async (t) => {
  const api = await startApi(t, { minions: [] });
  const token = await api.login();
  for (const path of ['/', '/login', '/status', '/health', '/metrics', '/openapi.json', '/no']) {
    t.is(await askedAs(api, 'evil.example', path), 421, path);
    t.is(await askedAs(api, `localhost.evil.example:${api.port}`, path), 421, path);
  }
  t.is(await upgradedAs(api, 'evil.example', token), 421);
  for (const host of [
    'localhost',
    `LOCALHOST:${api.port}`,
    'localhost.',
    '127.0.0.1',
    '[::1]:80',
  ]) {
    t.is(await askedAs(api, host), 200, host);
  }
});

test('names that are listed are heard, wherever it listens', async (t) => {
  const cases: readonly [SaltApiOptions, listed: number, other: number][] = [
    [{ hosts: ['salt.example'] }, 200, 421],
    [{ hosts: ['*'] }, 200, 200],
    [{ host: '0.0.0.0', disableSsl: true }, 200, 200],
    [{ host: '0.0.0.0', disableSsl: true, hosts: ['salt.example'] }, 200, 421],
  ];
  for (const [options, listed, other] of cases) {
    const api = await startApi(t, { minions: [], options });
    t.is(await askedAs(api, 'Salt.Example:8000'), listed);
    t.is(await askedAs(api, 'other.example'), other);
    t.is(await askedAs(api, '192.0.2.1'), 200);
  }
});

test('an address that authorized_ips does not list is answered nothing', async (t) => {
  const away = await startApi(t, { minions: [], options: { authorizedIps: ['10.0.0.0/8'] } });
  for (const path of ['/', '/login', '/health', '/no']) {
    const { status, json: body } = await away.ask({ path });
    t.is(status, 403, path);
    t.deepEqual(body, { status: 403, error: 'ERR_HTTP_ADDRESS' });
  }
  t.is(await upgradedAs(away, 'localhost', '0'.repeat(64)), 403);
  const here = { authorizedIps: ['10.0.0.1', '127.0.0.0/8'] };
  t.is((await (await startApi(t, { minions: [], options: here })).ask({ path: '/' })).status, 200);
});

test('users log in from where api_acl lets them, by whatever door', async (t) => {
  const users = { admin: ['127.0.0.1'], limited: ['10.0.0.0/8'], '*': ['::1'], noperms: ['*'] };
  const config = { restCherrypy: { apiAcl: { users } } };
  const { ask, master } = await startApi(t, { minions: ['web1'], config });
  const doors = [
    ['/login', {}],
    ['/token', {}],
    ['/run', ping],
    ['/rpc/logins.login', {}],
  ] as const;
  const permitted = { admin: true, noperms: true, limited: false, scoped: false };
  for (const [username, may] of Object.entries(permitted)) {
    for (const [path, more] of doors) {
      // Who may log in may still do nothing.
      if (username === 'noperms' && path === '/run') continue;
      const body = { username, password, eauth: 'sharedsecret', ...more };
      const { status } = await ask({ method: 'POST', path, headers: json(), body });
      t.is(status, may ? 200 : 401, `${username} ${path}`);
    }
  }
  const local = { username: 'limited', password, eauth: 'sharedsecret' };
  t.is((await master.logins.login(local)).user, 'limited');
});

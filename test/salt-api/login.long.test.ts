/** Log-ins, sessions and their tokens. */

import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { resolveMasterConfig } from '#config';
import type { SaltApiOptions } from '#salt-api';
import { auditRecords } from '../helpers/audit-records.ts';
import { within } from '../helpers/deadline.ts';
import {
  type ApiAnswer,
  json,
  password,
  type RunningApi,
  send,
  startApi,
} from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';

const ping = { client: 'local', tgt: '*', fun: 'test.ping' };
const refused = { status: 401, error: 'ERR_HTTP_SESSION' };

function loginOf(answer: ApiAnswer): Record<string, unknown> {
  const { return: list } = answer.json as { readonly return: Record<string, unknown>[] };
  return list[0] ?? {};
}

test('a log-in returns a token, a cookie and the rights', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.is(answer.status, 200);
  const { token, start, expire, ...rest } = loginOf(answer);
  t.regex(String(token), /^[0-9a-f]{64}$/);
  t.is(answer.headers['x-auth-token'], String(token));
  // For a shared secret, no check can find out whether a user may still log in.
  t.is(Number(expire) - Number(start), 3600);
  t.deepEqual(rest, {
    user: 'admin',
    eauth: 'sharedsecret',
    perms: ['.*', '@jobs', '@runner', '@wheel'],
  });
  const cookie = String(answer.headers['set-cookie']);
  t.true(cookie.startsWith(`session_id=${token}; `));
  t.regex(cookie, /; HttpOnly; SameSite=Strict$/);
});

test('the rights of a user without rights are an empty map', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'noperms', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.deepEqual(loginOf(answer).perms, {});
});

test('every documented form of a log-in is accepted', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const form = `username=admin&password=${password}&eauth=sharedsecret`;
  const map = { username: 'admin', password, eauth: 'sharedsecret' };
  const yaml = `username: admin\npassword: ${password}\neauth: sharedsecret\n`;
  const bodies: [type: string, body: unknown][] = [
    ['application/json', [map]],
    ['application/x-www-form-urlencoded', form],
    ['text/plain;charset=UTF-8', map],
    ['application/x-yaml', yaml],
  ];
  for (const [type, body] of bodies) {
    const headers = { 'content-type': type, 'x-auth-token': '' };
    t.is((await ask({ method: 'POST', path: '/login', headers, body })).status, 200, type);
  }
});

test('every failed log-in gets the same response', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const good = { username: 'admin', password, eauth: 'sharedsecret' };
  const bodies: unknown[] = [
    { ...good, password: 'wrong' },
    { ...good, username: 'nobody', password: 'wrong' },
    { ...good, eauth: 'nosuch' },
    { ...good, eauth: '^filename' },
    { ...good, username: ['admin'] },
    { ...good, username: 'admin\0' },
    { ...good, password: { $ne: '' } },
    { username: 'admin' },
    {},
    [],
  ];
  const answers = await Promise.all(
    bodies.map((body) => ask({ method: 'POST', path: '/login', headers: json(), body })),
  );
  for (const { status, json: body, headers } of answers) {
    t.is(status, 401);
    t.deepEqual(body, refused);
    t.is(headers['set-cookie'], undefined);
  }
});

test('only a log-in creates a session', async (t) => {
  const origin = 'https://ui.example';
  const { ask } = await startApi(t, { minions: [], options: { corsOrigin: [origin] } });
  const preflight = { origin, 'access-control-request-method': 'POST' };
  for (const request of [
    { method: 'OPTIONS', path: '/login', headers: preflight },
    { method: 'OPTIONS', path: '/login', headers: { ...preflight, origin: 'https://a.example' } },
    { method: 'OPTIONS', path: '/login' },
    { path: '/login' },
    { path: '/' },
    { path: '/stats' },
    { path: '/nosuch' },
    { method: 'POST', path: '/login', headers: json(), body: '[{' },
    { method: 'POST', path: '/logout', headers: json(), body: {} },
  ]) {
    const { headers } = await ask(request);
    const note = `${request.method} ${request.path}`;
    t.is(headers['set-cookie'], undefined, note);
    t.is(headers['x-auth-token'], undefined, note);
  }
});

test('missing, malformed and unknown tokens are refused alike, wherever they are sent', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const session = await login();
  const tokens = ['deadbeef', '../../etc/passwd', 'f'.repeat(64), session.toUpperCase()];
  const headers = [
    {},
    ...tokens.map((token) => ({ 'x-auth-token': token })),
    ...tokens.map((token) => ({ cookie: `session_id=${token}` })),
    // The header takes precedence over the cookie.
    { 'x-auth-token': 'bad', cookie: `session_id=${session}` },
  ];
  const paths = ['/', '/minions', '/jobs', '/keys', '/stats', '/logout', '/hook', '/minions/x'];
  for (const path of paths) {
    const method = ['/', '/logout', '/hook'].includes(path) ? 'POST' : 'GET';
    for (const header of headers) {
      const answer = await ask({ method, path, headers: header });
      t.is(answer.status, 401, path);
      t.deepEqual(answer.json, refused);
    }
  }
});

test('a cookie identifies a session, but not for pages of other sites', async (t) => {
  const { ask, login, port } = await startApi(t, { minions: [] });
  const cookie = `session_id=${await login()}`;
  const own = { cookie, origin: `http://127.0.0.1:${port}` };
  t.is((await ask({ path: '/stats', headers: { cookie } })).status, 200);
  t.is((await ask({ path: '/stats', headers: own })).status, 200);
  const others = [
    { cookie, origin: 'http://evil.example' },
    { cookie, origin: 'null' },
    { cookie, 'sec-fetch-site': 'cross-site' },
  ];
  for (const headers of others) t.is((await ask({ path: '/stats', headers })).status, 401);
});

test('a page of another site that logs in gets a session, but no cookie', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const pages = [{ origin: 'http://evil.example' }, { 'sec-fetch-site': 'cross-site' }];
  for (const page of pages) {
    const headers = { ...json(), ...page };
    const answer = await ask({ method: 'POST', path: '/login', headers, body });
    t.is(answer.headers['x-auth-token'], String(loginOf(answer).token));
    t.is(answer.headers['set-cookie'], undefined);
  }
});

test('a log-out ends the session and its token', async (t) => {
  const { ask, login, master } = await startApi(t, { minions: [] });
  const token = await login();
  const logout = { method: 'POST', path: '/logout', headers: json(token), body: {} };
  const answer = await ask(logout);
  t.deepEqual(answer.json, { return: 'Your token has been cleared' });
  t.regex(String(answer.headers['set-cookie']), /expires=\w{3}, \d\d \w{3} \d{4}/);
  t.is((await ask(logout)).status, 401);
  t.deepEqual(await master.logins.list(), []);
});

test('a revoked or expired token is refused', async (t) => {
  const { ask, login, master, clock } = await startApi(t, { minions: [] });
  const stats = async (token: string): Promise<number> =>
    (await ask({ path: '/stats', headers: json(token) })).status;
  const revoked = await login();
  t.is(await stats(revoked), 200);
  await master.logins.revoke({ user: 'admin' });
  t.is(await stats(revoked), 401);
  const expired = await login();
  clock.now += 43_200_000;
  t.is(await stats(expired), 401);
});

test("the session token differs from Salt's token, and neither replaces the other", async (t) => {
  const { ask, login, run } = await startApi(t, { minions: [] });
  const session = await login();
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const made = await ask({ method: 'POST', path: '/token', headers: json(), body: credentials });
  const [{ token, ...rest }] = made.json as [Record<string, string | number>];
  t.deepEqual(Object.keys(rest), ['start', 'expire', 'name', 'eauth']);
  t.regex(String(token), /^[0-9a-f]{64}$/);
  const low = { client: 'runner', fun: 'jobs.list_jobs' };
  const runs = async (fields: object): Promise<number> => {
    const body = [{ ...low, ...fields }];
    return (await ask({ method: 'POST', path: '/run', headers: json(session), body })).status;
  };
  t.is(await runs({ token }), 200);
  t.is(await runs({ token, username: 'x', password: 'y', eauth: 'z' }), 200);
  t.is(await runs(credentials), 200);
  t.is(await runs({}), 401);
  t.is(await runs({ token: session }), 401);
  t.is(await runs({ token: '../../etc/passwd' }), 401);
  t.is(await runs({ token: [token] }), 401);
  t.is((await run(String(token), low)).status, 401);
});

test('credentials of /run create no token, and appear in no event', async (t) => {
  const { ask, master, eventsDuring } = await startApi(t, { minions: [] });
  const body = {
    client: 'wheel',
    fun: 'key.list_all',
    username: 'admin',
    password,
    eauth: 'sharedsecret',
  };
  const events = await eventsDuring(async () => {
    t.is((await ask({ method: 'POST', path: '/run', headers: json(), body })).status, 200);
  });
  t.true(events.length > 0);
  t.false(JSON.stringify(events).includes(password));
  t.deepEqual(await master.logins.list(), []);
});

test('the status of /token shows which field is missing', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'admin' };
  const request = { method: 'POST', path: '/token', headers: json() };
  t.is((await ask({ ...request, body })).status, 400);
  const wrong = { username: 'admin', password: 'wrong', eauth: 'sharedsecret' };
  t.is((await ask({ ...request, body: wrong })).status, 401);
  for (const none of ['', '5', '{}', '[1]']) {
    t.is((await ask({ ...request, body: none })).status, 400, none);
  }
});

test('/token creates a token for each log-in of a list, or none if one lacks a field', async (t) => {
  const { ask, master } = await startApi(t, { minions: [] });
  const forms = ['admin', 'limited'].map((username) => ({
    username,
    password,
    eauth: 'sharedsecret',
  }));
  const request = { method: 'POST', path: '/token', headers: json() };
  const tokens = (await ask({ ...request, body: forms })).json as { name: string }[];
  t.deepEqual(
    tokens.map(({ name }) => name),
    ['admin', 'limited'],
  );
  t.is((await ask({ ...request, body: [...forms, { username: 'admin' }] })).status, 400);
  t.is((await master.logins.list()).length, 2);
});

test('a user who may choose the lifetime of a token can send it in a form', async (t) => {
  const { ask } = await startApi(t, {
    minions: [],
    config: { eauth: { tokenExpireUserOverride: true } },
  });
  const form = `username=admin&password=${password}&eauth=sharedsecret`;
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const lives = ['60', 'sixty', ''].map(async (seconds) => {
    const body = `${form}&token_expire=${seconds}`;
    const login = loginOf(await ask({ method: 'POST', path: '/login', headers, body }));
    return Number(login.expire) - Number(login.start);
  });
  t.deepEqual(await Promise.all(lives), [60, 3600, 3600]);
});

test('five failures lock out only that user', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const body = { username: 'admin', password: 'wrong', eauth: 'sharedsecret' };
  const request = { method: 'POST', path: '/login', headers: json(), body };
  await Promise.all(Array.from({ length: 5 }, () => ask(request)));
  t.is((await ask(request)).status, 429);
  t.regex(await login('limited'), /^[0-9a-f]{64}$/);
});

test('an unused session expires', async (t) => {
  const { run, login } = await startApi(t, { minions: [], options: { sessionIdleSeconds: 0 } });
  t.is((await run(await login(), ping)).status, 401);
});

// Requests of users with limited rights over HTTP [THREATS ].

test('a user has the rights of external_auth on each client', async (t) => {
  const { run, login, eventsDuring } = await startApi(t);
  const token = await login('limited');
  const allowed = { tgt: '*', fun: 'test.ping' };
  t.is((await run(token, { client: 'local', ...allowed })).status, 200);
  const refused = await eventsDuring(async () => {
    const local = { tgt: '*', fun: 'cmd.run', arg: ['id'] };
    for (const low of [
      { client: 'local', ...local },
      { client: 'local_async', ...local },
      { client: 'local_batch', ...local, batch: 1 },
      { client: 'local_subset', ...local },
      { client: 'local', tgt: '*', fun: ['test.ping', 'cmd.run'], arg: [[], ['id']] },
      { client: 'local', tgt: '*', fun: 'xtest.ping' },
      { client: 'local', tgt: 'nobody', fun: 'test.ping' },
      { client: 'runner', fun: 'manage.up' },
      { client: 'runner_async', fun: 'manage.up' },
      { client: 'wheel', fun: 'key.list_all' },
      { client: 'wheel_async', fun: 'key.list_all' },
    ]) {
      const { status, json: body } = await run(token, low);
      t.is(status, 401, JSON.stringify(low));
      t.deepEqual(body, { status: 401, error: 'ERR_HTTP_SESSION' });
    }
  });
  t.deepEqual(refused, []);
});

test('a target is reduced to the granted minions, and excludes forbidden ones', async (t) => {
  const { run, login } = await startApi(t);
  const token = await login('scoped');
  const low = { client: 'local', fun: 'test.ping' };
  const warnings = ['the job was sent only to the minions that the rights of the caller permit'];
  for (const tgt of ['*', 'web*']) {
    t.deepEqual((await run(token, { ...low, tgt })).json, { return: [{ web1: true }], warnings });
  }
  const compound = { ...low, tgt: 'web1 or db1', tgt_type: 'compound' };
  t.deepEqual((await run(token, compound)).json, { return: [{ web1: true }], warnings });
  for (const name of ['db1', 'gone']) {
    const { json: body } = await run(token, { ...low, tgt: ['web1', name] });
    t.deepEqual(body, { return: [{ web1: true, [name]: false }], warnings });
  }
  const refused = await run(token, { ...low, tgt: 'web1', fun: 'cmd.run' });
  t.is(refused.status, 401);
  for (const client of ['local', 'local_async', 'local_batch', 'local_subset']) {
    for (const [tgt, type] of [
      ['db1', 'glob'],
      ['none', 'glob'],
      ['db1 or G@id:db1', 'compound'],
      ['I@a:b*', 'compound'],
      ['id:db1', 'grain'],
      ['nosuch', 'nodegroup'],
      ['N@nosuch', 'compound'],
    ]) {
      const answer = await run(token, { ...low, client, tgt, tgt_type: type, batch: 1 });
      t.deepEqual([answer.status, answer.json], [refused.status, refused.json], `${client} ${tgt}`);
    }
  }
});

test('the user of a command and fields of minions are never taken from the request', async (t) => {
  const { run, login, eventsDuring } = await startApi(t);
  const token = await login('limited');
  const events = await eventsDuring(async () => {
    const answer = await run(token, {
      client: 'local_async',
      tgt: '*',
      fun: 'test.ping',
      user: 'root',
      __user: 'root',
      id: 'web1',
      to: 5,
      jid: '20200101000000000000',
      ret: 'sneaky',
      metadata: { a: 1 },
      module_executors: ['sudo'],
      eauth: 'auto',
      username: 'root',
      password: 'x',
      token: 'x',
      opts: { a: 1 },
    });
    t.is(answer.status, 200);
  });
  const load = events.find(({ tag }) => tag.endsWith('/publish'))?.data;
  t.deepEqual(Object.keys(load ?? {}).sort(), [
    '_stamp',
    'arg',
    'fun',
    'jid',
    'ret',
    'tgt',
    'tgt_type',
    'user',
  ]);
  t.like(load, { user: 'limited', ret: '', tgt: ['db1', 'web1'], tgt_type: 'list' });
  t.not(load?.jid, '20200101000000000000');
});

test('the same user name in another eauth is a different user', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  await login('limited');
  const body = { username: 'limited', password: 'x', eauth: 'pam' };
  t.is((await ask({ method: 'POST', path: '/login', headers: json(), body })).status, 401);
});

test('a hook requires the right to fire events, and a path that is a valid tag', async (t) => {
  const { ask, login, eventsDuring } = await startApi(t, { minions: [] });
  const hook = async (token: string, path: string): Promise<number> =>
    (await ask({ method: 'POST', path, headers: json(token), body: { a: 1 } })).status;
  const admin = await login();
  const limited = await login('limited');
  const events = await eventsDuring(async () => {
    t.is(await hook(limited, '/hook/x'), 401);
    for (const path of [
      '/hook/%2e%2e/x',
      '/hook/a%00b',
      '/hook/a%20b',
      `/hook/${'a'.repeat(201)}`,
    ]) {
      t.is(await hook(admin, path), 404, path);
    }
    t.is(await hook(admin, '/hook'), 200);
    t.is(await hook(admin, '/hook/my/app'), 200);
  });
  t.deepEqual(
    events.map(({ tag }) => tag),
    ['salt/netapi/hook', 'salt/netapi/hook/my/app'],
  );
});

test('the audit log records a hook call, and that it needed no login', async (t) => {
  const guarded = await startApi(t, { minions: [] });
  const open = await startApi(t, { minions: [], options: { webhookDisableAuth: true } });
  const hook = async ({ ask }: typeof open, token?: string): Promise<number> =>
    (await ask({ method: 'POST', path: '/hook/x', headers: json(token), body: {} })).status;
  t.is(await hook(guarded, await guarded.login()), 200);
  t.is(await hook(open), 200);
  const fired = { action: 'fire', what: 'salt/netapi/hook/x', outcome: 'permitted' } as const;
  const [ofUser] = await auditRecords(guarded, { action: 'fire' });
  t.like(ofUser, { ...fired, who: { kind: 'user', name: 'admin', eauth: 'sharedsecret' } });
  const [ofAnybody] = await auditRecords(open, { action: 'fire' });
  t.like(ofAnybody, { ...fired, who: { kind: 'user', name: '' }, rule: 'webhook_disable_auth' });
});

// Access is checked by the host name in the request, and by the client's address.

const testPing = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** Returns the status of a request to this host name. */
async function askedAs({ port }: RunningApi, host: string, path = '/'): Promise<number> {
  return (await send(port, { path, headers: { host } })).status;
}

/** Returns the status of a WebSocket request to this host name. */
async function upgradedAs({ port }: RunningApi, host: string, token: string): Promise<number> {
  const headers = { host, 'x-auth-token': token, upgrade: 'websocket', connection: 'Upgrade' };
  return (await send(port, { path: '/ws', headers })).status;
}

test('on a loopback address, every path refuses a host name of another machine', async (t) => {
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

test('listed host names are accepted on any address', async (t) => {
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

test('an address outside authorized_ips gets no data', async (t) => {
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

test('users log in only from addresses in api_acl, on every interface', async (t) => {
  const users = { admin: ['127.0.0.1'], limited: ['10.0.0.0/8'], '*': ['::1'], noperms: ['*'] };
  const config = { restCherrypy: { apiAcl: { users } } };
  const { ask, master } = await startApi(t, { minions: ['web1'], config });
  const doors = [
    ['/login', {}],
    ['/token', {}],
    ['/run', testPing],
    ['/rpc/logins.login', {}],
  ] as const;
  const permitted = { admin: true, noperms: true, limited: false, scoped: false };
  for (const [username, may] of Object.entries(permitted)) {
    for (const [path, more] of doors) {
      // A user who may log in may still have no other rights.
      if (username === 'noperms' && path === '/run') continue;
      const body = { username, password, eauth: 'sharedsecret', ...more };
      const { status } = await ask({ method: 'POST', path, headers: json(), body });
      t.is(status, may ? 200 : 401, `${username} ${path}`);
    }
  }
  const local = { username: 'limited', password, eauth: 'sharedsecret' };
  t.is((await master.logins.login(local)).user, 'limited');
});

// Requests of clients without any rights, or with rights that were revoked.

/** Sends the beginning of a request and returns what is received. The rest is never sent. */
function beginningOf(t: ExecutionContext, port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  const answer = new Promise<string>((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    socket.once('error', reject);
  });
  socket.write(text);
  return within('an answer', answer);
}

test('sessions and tokens of a deleted user end at the next check', async (t) => {
  const file = path.join(temporaryDirectory(t), 'users');
  writeFileSync(file, 'fred:word\n');
  const externalAuth = { file: { '^filename': file, fred: ['.*', '@runner'] } };
  const { ask, run, master } = await startApi(t, { minions: ['web1'], config: { externalAuth } });
  const form = { username: 'fred', password: 'word', eauth: 'file' };
  const { headers } = await ask({ method: 'POST', path: '/login', headers: json(), body: form });
  const session = String(headers['x-auth-token']);
  const tokens = await ask({ method: 'POST', path: '/token', headers: json(), body: form });
  const [own] = Array.isArray(tokens.json) ? tokens.json : [];
  // Data about users is cached for half a minute, or until a reload.
  const lookAgain = (): Promise<unknown> => master.reload(resolveMasterConfig({ externalAuth }));
  await lookAgain();
  t.is((await run(session, testPing)).status, 200);
  writeFileSync(file, '');
  await lookAgain();
  t.is((await run(session, testPing)).status, 401);
  const byToken = [{ ...testPing, token: own.token }];
  t.is((await ask({ method: 'POST', path: '/run', headers: json(), body: byToken })).status, 401);
  t.is((await ask({ path: `/events?salt_token=${own.token}` })).status, 401);
  t.is((await ask({ method: 'POST', path: '/login', headers: json(), body: form })).status, 401);
});

test('a body of twenty megabytes is refused by its length, before it is sent', async (t) => {
  const { port, run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const paths = ['/', '/run', '/login', '/token', '/minions', '/hook/x', '/status/login'];
  for (const place of paths) {
    const head = `POST ${place} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n`;
    const type = 'Content-Type: application/json\r\n';
    const text = `${head}${type}Content-Length: 20000000\r\n\r\n[`;
    t.regex(await beginningOf(t, port, text), /^HTTP\/1\.1 413 /, place);
  }
  t.is((await run(token, testPing)).status, 200);
});

test('a body without a length is read only up to the limit', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { maxRequestBodySize: 1_048_576 },
  });
  const token = await login();
  const head = `POST / HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n`;
  const type = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  const text = `${head}${type}${chunk.repeat(17)}`;
  t.regex(await beginningOf(t, port, text), /^HTTP\/1\.1 413 /);
  t.is((await run(token, testPing)).status, 200);
});

test('streams of the status page count toward the limit of streams', async (t) => {
  const { port, login, run } = await startApi(t, {
    minions: ['web1'],
    options: { streamsPerToken: 8 },
  });
  const token = await login();
  const request = `GET /status/stream HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n\r\n`;
  for (let count = 0; count < 8; count += 1) {
    t.regex(await beginningOf(t, port, request), /^HTTP\/1\.1 200 /);
  }
  t.regex(await beginningOf(t, port, request), /^HTTP\/1\.1 429 /);
  t.is((await run(token, testPing)).status, 200);
});

test('a batch stops if a reload takes away its right', async (t) => {
  const ran: string[] = [];
  const api: RunningApi = await startApi(t, {
    config: { externalAuth: { sharedsecret: { limited: ['cmd.run', 'test.*'] } } },
    functions: {
      'cmd.run': async () => {
        ran.push('cmd.run');
        await api.master.acl.reload();
        return 'done';
      },
    },
    readConfig: async () =>
      resolveMasterConfig({
        ...directories(api.directory),
        eauth: { sharedsecret: password },
        externalAuth: { sharedsecret: { limited: ['test.*'] } },
      }),
  });
  const batch = { client: 'local_batch', tgt: '*', fun: 'cmd.run', arg: ['id'], batch: 1 };
  const answer = await api.run(await api.login('limited'), [batch]);
  t.is(answer.status, 401);
  t.deepEqual(ran, ['cmd.run']);
});

test('a batch of a sudo user stops if a reload takes away its right', async (t) => {
  const ran: string[] = [];
  const eauth = { sharedsecret: password, sudoAcl: true };
  const api: RunningApi = await startApi(t, {
    config: { eauth, publisherAcl: { fred: ['cmd.run'] } },
    functions: {
      'cmd.run': async () => {
        ran.push('cmd.run');
        await api.master.acl.reload();
        return 'done';
      },
    },
    readConfig: async () =>
      resolveMasterConfig({
        ...directories(api.directory),
        eauth,
        publisherAcl: { fred: ['test.*'] },
      }),
  });
  const request = { tgt: '*', fun: 'cmd.run', user: 'sudo_fred', size: 1 };
  const batch = Array.fromAsync(api.master.jobs.batch(request));
  await t.throwsAsync(batch, { code: 'ERR_DENIED' });
  t.deepEqual(ran, ['cmd.run']);
});

test('a batch stops if its rule expires', async (t) => {
  const ran: string[] = [];
  const limited = allow('for a minute', {
    action: 'publish',
    subject: { user: 'limited' },
    resource: { fun: 'cmd.run' },
    expires: new Date(Date.now() + 60_000).toISOString(),
  });
  const api: RunningApi = await startApi(t, {
    config: { acl: { rules: [limited] } },
    functions: {
      'cmd.run': async () => {
        ran.push('cmd.run');
        api.clock.now += 60_000;
        return 'done';
      },
    },
  });
  const credentials = { username: 'limited', password, eauth: 'sharedsecret' };
  const { token } = await api.master.logins.login(credentials);
  const request = { tgt: '*', fun: 'cmd.run', size: 1 };
  const batch = Array.fromAsync(api.master.asUser(token).jobs.batch(request));
  await t.throwsAsync(batch, { code: 'ERR_DENIED' });
  t.deepEqual(ran, ['cmd.run']);
});

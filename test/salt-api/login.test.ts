/** Log-ins, sessions and their tokens. */
import test from 'ava';
import { type ApiAnswer, json, password, startApi } from '../helpers/salt-api.ts';

const ping = { client: 'local', tgt: '*', fun: 'test.ping' };
const refused = { status: 401, error: 'ERR_HTTP_SESSION' };

function loginOf(answer: ApiAnswer): Record<string, unknown> {
  const { return: list } = answer.json as { readonly return: Record<string, unknown>[] };
  return list[0] ?? {};
}

test('a log-in gives a token, a cookie and the rights', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.is(answer.status, 200);
  const { token, start, expire, ...rest } = loginOf(answer);
  t.regex(String(token), /^[0-9a-f]{64}$/);
  t.is(answer.headers['x-auth-token'], String(token));
  // Nobody can say whether a user of a shared secret may still log in.
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

test('a user without rights gets an empty map of them', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const body = { username: 'noperms', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.deepEqual(loginOf(answer).perms, {});
});

test('each way of sending a log-in is understood', async (t) => {
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

test('whatever is wrong with a log-in, the answer is the same', async (t) => {
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

test('nothing but a log-in leaves a session', async (t) => {
  const origin = 'https://ui.example';
  const { ask } = await startApi(t, { minions: [], options: { corsOrigin: [origin] } });
  const preflight = { origin, 'access-control-request-method': 'POST' };
  for (const request of [
    { method: 'OPTIONS', path: '/login', headers: preflight },
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

test('no, malformed and unknown tokens are refused alike, wherever they stand', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const session = await login();
  const tokens = ['deadbeef', '../../etc/passwd', 'f'.repeat(64), session.toUpperCase()];
  const headers = [
    {},
    ...tokens.map((token) => ({ 'x-auth-token': token })),
    ...tokens.map((token) => ({ cookie: `session_id=${token}` })),
    // The header is looked at first, whatever the cookie says.
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

test('a cookie is a session, but not for a page of another site', async (t) => {
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

test('a log-out ends the session and the token behind it', async (t) => {
  const { ask, login, master } = await startApi(t, { minions: [] });
  const token = await login();
  const logout = { method: 'POST', path: '/logout', headers: json(token), body: {} };
  const answer = await ask(logout);
  t.deepEqual(answer.json, { return: 'Your token has been cleared' });
  t.regex(String(answer.headers['set-cookie']), /expires=\w{3}, \d\d \w{3} \d{4}/);
  t.is((await ask(logout)).status, 401);
  t.deepEqual(await master.logins.list(), []);
});

test('a token that was revoked, or has expired, is none', async (t) => {
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

test("the session's token is not Salt's, and neither serves for the other", async (t) => {
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

test('credentials of /run leave no token behind, and are in no event', async (t) => {
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

test('/token says what is missing by its status', async (t) => {
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

test('/token makes a token for each log-in of a list, or none where one lacks a field', async (t) => {
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

test('who may choose how long a token lives says so in a form, too', async (t) => {
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

test('five failures shut out that user, and nobody else', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const body = { username: 'admin', password: 'wrong', eauth: 'sharedsecret' };
  const request = { method: 'POST', path: '/login', headers: json(), body };
  await Promise.all(Array.from({ length: 5 }, () => ask(request)));
  t.is((await ask(request)).status, 429);
  t.regex(await login('limited'), /^[0-9a-f]{64}$/);
});

test('a session that nobody uses ends', async (t) => {
  const { run, login } = await startApi(t, { minions: [], options: { sessionIdle: 0 } });
  t.is((await run(await login(), ping)).status, 401);
});

/**
 * The status page: who may see it, what it shows, and that no page of another site can act through
 * it.
 */

import { writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import test from 'ava';
import fc from 'fast-check';
import { createBridge } from '#guests';
import type { MetricFamily, MinionInfo } from '#master';
import { html } from '#salt-api/page/html.ts';
import { CachedValue, memoizeByObject } from '#salt-api/page/overview.ts';
import { StatusHistory } from '#salt-api/page/status-history.ts';
import { type ApiAnswer, json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const form = { ...browser, 'content-type': 'application/x-www-form-urlencoded' };

/**
 * Logs in with the form of the page.
 * @returns the cookie
 */
async function logIn({ ask }: RunningApi, username = 'admin'): Promise<string> {
  const body = String(new URLSearchParams({ username, password, eauth: 'sharedsecret' }));
  const request = { method: 'POST', path: '/status/login', headers: form, body };
  const { status, headers } = await ask(request);
  if (status !== 303) throw new Error(`log-in: ${status}`);
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

const pageOf = ({ ask }: RunningApi, cookie: string): Promise<ApiAnswer> =>
  ask({ path: '/status', headers: { ...browser, cookie } });

const formToken = ({ text }: ApiAnswer): string =>
  /name="form" value="(\w+)"/.exec(text)?.[1] ?? '';

/** Returns the first pending key with the values in its form. */
async function pendingKey({ master }: RunningApi): Promise<{ id: string; fingerprint: string }> {
  const [key] = await master.keys.list({ state: 'pending' });
  if (key === undefined) throw new Error('no key waits');
  return { id: key.id, fingerprint: key.fingerprint };
}

async function decide(
  { ask }: RunningApi,
  headers: Record<string, string>,
  fields: Record<string, string>,
): Promise<ApiAnswer> {
  const body = String(new URLSearchParams({ action: 'accept', ...fields }));
  return ask({ method: 'POST', path: '/status/keys', headers: { ...form, ...headers }, body });
}

test('browsers get a page at /, and programs get their usual response', async (t) => {
  const { ask } = await startApi(t);
  const page = await ask({ path: '/', headers: browser });
  t.regex(String(page.headers['content-type']), /^text\/html/);
  t.regex(page.text, /Password/);
  for (const accept of ['application/json', '*/*', 'application/json, text/html', '']) {
    const { json: value } = await ask({ path: '/', headers: accept === '' ? {} : { accept } });
    t.like(value, { return: 'Welcome' }, accept);
  }
});

test('a pending key whose id or key duplicates that of another minion is marked', async (t) => {
  const api = await startApi(t, { pending: ['WEB1'], silent: ['web1'] });
  const { text } = await pageOf(api, await logIn(api));
  t.true(text.includes('<td>looks like web1; same key as db1, web1</td>'), text);
});

test('a remark about a pending key counts the minions that it does not name', async (t) => {
  const copies = ['a1', 'a2', 'a3', 'a4', 'a5'];
  const api = await startApi(t, { pending: ['WEB1'], minions: copies });
  const { text } = await pageOf(api, await logIn(api));
  t.true(text.includes('<td>same key as a1, a2, a3 and 2 more</td>'), text);
});

test('users who may see jobs see the runs of the bridge', async (t) => {
  const api = await startApi(t, { extensions: [createBridge()] });
  const { text } = await pageOf(api, await logIn(api));
  t.regex(text, /<h2>Bridge<\/h2>/);
  t.regex(text, /0 waiting, 0 held for a handle, <b class="good">0<\/b> given up/);
  t.regex(text, /0 of commands, 0 of plans/);
  const limited = await pageOf(api, await logIn(api, 'limited'));
  t.notRegex(limited.text, /<h2>Bridge<\/h2>/);
});

test('the page loads only its own resources, and cannot be framed', async (t) => {
  const { headers } = await (await startApi(t)).ask({ path: '/status', headers: browser });
  const policy = String(headers['content-security-policy']);
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"]) {
    t.true(policy.includes(part), part);
  }
  t.notRegex(policy, /unsafe|\*/);
  t.is(headers['cache-control'], 'no-store');
});

test('a log-in sets a cookie that scripts and other sites cannot read', async (t) => {
  const { ask } = await startApi(t);
  const login = (fields: Record<string, string>, more = {}): Promise<ApiAnswer> => {
    const body = String(new URLSearchParams(fields));
    return ask({ method: 'POST', path: '/status/login', headers: { ...form, ...more }, body });
  };
  const right = { username: 'admin', password, eauth: 'sharedsecret' };
  const { status, headers } = await login(right);
  t.is(status, 303);
  t.regex(String(headers['set-cookie']), /HttpOnly; SameSite=Strict/);
  const wrong = await login({ ...right, password: 'wrong' });
  t.is(wrong.status, 401);
  t.is(wrong.headers['set-cookie'], undefined);
  t.false(wrong.text.includes('admin'));
  const foreign = await login(right, { origin: 'https://evil.example' });
  t.is(foreign.status, 401);
  t.is(foreign.headers['set-cookie'], undefined);
});

test('each user sees only what the policy grants, and decides only about that', async (t) => {
  const api = await startApi(t, { pending: ['new1'], silent: ['gone1'] });
  const all = (await pageOf(api, await logIn(api))).text;
  for (const word of ['new1', 'gone1', 'Running jobs']) t.true(all.includes(word), word);
  const cookie = await logIn(api, 'limited');
  const page = await pageOf(api, cookie);
  for (const word of ['new1', 'gone1', 'Running jobs', 'Pending']) {
    t.false(page.text.includes(word), word);
  }
  const key = await pendingKey(api);
  const { headers } = await decide(api, { cookie }, { form: formToken(page), ...key });
  t.is(headers.location, '/status?told=denied');
  t.deepEqual(await pendingKey(api), key);
});

test('a key decision is accepted only from the page itself', async (t) => {
  const api = await startApi(t, { pending: ['new1'] });
  const cookie = await logIn(api);
  const key = await pendingKey(api);
  const own = formToken(await pageOf(api, cookie));
  const anothers = formToken(await pageOf(api, await logIn(api)));
  t.not(own, anothers);
  const refused: readonly (readonly [Record<string, string>, Record<string, string>])[] = [
    [{ cookie }, key],
    [{ cookie }, { form: '', ...key }],
    [{ cookie }, { form: anothers, ...key }],
    [{}, { form: own, ...key }],
    [
      { cookie, origin: 'https://evil.example' },
      { form: own, ...key },
    ],
    [
      { cookie, 'sec-fetch-site': 'cross-site' },
      { form: own, ...key },
    ],
  ];
  for (const [headers, fields] of refused) {
    t.is((await decide(api, headers, fields)).status, 401, JSON.stringify([headers, fields]));
  }
  t.deepEqual(await pendingKey(api), key);
  const { headers } = await decide(api, { cookie }, { form: own, ...key });
  t.is(headers.location, '/status?told=accept');
});

test('a different key with the same id is not changed', async (t) => {
  const api = await startApi(t, { pending: ['new1'] });
  const cookie = await logIn(api);
  const own = formToken(await pageOf(api, cookie));
  const key = await pendingKey(api);
  const fingerprint = key.fingerprint.replace(/^../, (first) => (first === '00' ? '11' : '00'));
  for (const action of ['accept', 'reject']) {
    const fields = { form: own, id: key.id, fingerprint, action };
    t.is((await decide(api, { cookie }, fields)).headers.location, '/status?told=other', action);
  }
  for (const fields of [{ fingerprint: '' }, { id: '*' }, { action: 'delete' }]) {
    await decide(api, { cookie }, { form: own, ...key, ...fields });
  }
  t.deepEqual(await pendingKey(api), key);
});

test('a denied signal is explained to users who may read such events', async (t) => {
  const api = await startApi(t, {
    functions: {
      'my.event': async (_call, { fire }) => {
        await fire('my/<b>tag</b>', {});
        return true;
      },
    },
  });
  await api.run(await api.login(), { client: 'local', tgt: 'web1', fun: 'my.event' });
  const explain = async (username: string): Promise<ApiAnswer> => {
    const cookie = await logIn(api, username);
    const query = String(new URLSearchParams({ minion: 'web1', tag: 'my/<b>tag</b>' }));
    return api.ask({ path: `/status/explain?${query}`, headers: { ...browser, cookie } });
  };
  const { status, text } = await explain('admin');
  t.is(status, 200);
  t.regex(text, /The signal would now be denied/);
  t.true(text.includes('my/&lt;b&gt;tag&lt;/b&gt;'));
  t.false(text.includes('<b>tag'));
  t.is((await explain('limited')).status, 404);
});

test('the stream ends with its session', async (t) => {
  const api = await startApi(t);
  const cookie = await logIn(api);
  const { port, master } = api;
  const ended = new Promise<string>((resolve, reject) => {
    const request = httpRequest({ port, path: '/status/stream', headers: { cookie } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        if (text === '') master.logins.revoke({}).catch(reject);
        text += chunk;
      });
      answer.on('end', () => resolve(text));
    });
    request.on('error', reject);
    request.end();
  });
  t.regex(await ended, /^event: section\ndata: \{"id":"master"/);
  t.is((await api.ask({ path: '/status/stream', headers: { cookie } })).status, 401);
});

test('the page is disabled by an option, and by an app page', async (t) => {
  const off = await startApi(t, { options: { statusPage: false } });
  t.like((await off.ask({ path: '/', headers: browser })).json, { return: 'Welcome' });
  t.is((await off.ask({ path: '/status', headers: json() })).status, 404);
  const app = `${temporaryDirectory(t)}/index.html`;
  writeFileSync(app, '<title>app</title>');
  const both = await startApi(t, { options: { app } });
  t.regex((await both.ask({ path: '/', headers: browser })).text, /<title>app/);
  t.regex((await both.ask({ path: '/status', headers: browser })).text, /Password/);
  t.regex((await both.ask({ path: '/statusother', headers: browser })).text, /<title>app/);
});

test('any data on a page is rendered as text', (t) => {
  const property = fc.property(fc.string({ unit: 'grapheme' }), (text) => {
    const { text: markup } = html`<p title="${text}">${text}</p>`;
    const inner = markup.slice('<p title="'.length, -'</p>'.length);
    const [attribute = '', ...rest] = inner.split('">');
    t.is(rest.length, 1);
    t.notRegex(`${attribute}${rest[0]}`, /[<>"']/);
  });
  fc.assert(property);
});

// Data that the page caches and shares, so that its cost does not depend on the number of readers.

/** Returns a clock in milliseconds, which the test sets, and a master that counts calls. */
function stage(): {
  readonly history: StatusHistory;
  readonly asked: () => number;
  set(seconds: number, present: Readonly<Record<string, boolean>>, requests?: number): void;
} {
  let now = 1;
  let minions: MinionInfo[] = [];
  let requests = 0;
  let asked = 0;
  const family = (): MetricFamily => ({
    type: 'counter',
    name: 'saltbridge_requests_total',
    help: '',
    labels: [],
    samples: [{ labels: {}, value: requests }],
  });
  const source = {
    metrics: async () => [family()],
    minions: async () => {
      asked += 1;
      return minions;
    },
  };
  return {
    history: new StatusHistory(source, () => now),
    asked: () => asked,
    set: (seconds, present, total = 0) => {
      now = seconds * 1000;
      minions = Object.entries(present).map(([id, isPresent]) => ({ id, isPresent }));
      requests = total;
    },
  };
}

test('minions are probed while a client asks for them, and for ten more minutes', async (t) => {
  const { history, asked, set } = stage();
  set(10, { a: true });
  await history.sample();
  t.is(asked(), 0);
  await history.minions();
  set(600, { a: true });
  await history.sample();
  t.is(asked(), 2);
  set(611, { a: true });
  await history.sample();
  t.is(asked(), 2);
});

test('the time since when a minion is connected is known from the first probe', async (t) => {
  const { history, set } = stage();
  set(10, { a: true, b: false });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: false },
  ]);
  set(20, { a: true, b: true, c: true });
  await history.sample();
  set(25, { a: true, b: true, c: true });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: true, since: 20_000 },
    { id: 'c', isPresent: true, since: 20_000 },
  ]);
  // The key was deleted and created again. Nothing of the former key remains.
  set(30, { a: true });
  await history.sample();
  set(35, { a: true, b: true });
  t.deepEqual((await history.minions())[1], { id: 'b', isPresent: true, since: 35_000 });
  // The minion was not observed for a while, so it may have disconnected and reconnected.
  set(1000, { a: true, b: true });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: true },
  ]);
});

test('rates are counted whether or not a client reads them', async (t) => {
  const { history, set } = stage();
  for (const [seconds, total] of [
    [10, 0],
    [20, 50],
    [30, 50],
    [40, 20],
  ] as const) {
    set(seconds, {}, total);
    await history.sample();
  }
  t.deepEqual(history.rates()[0], { title: 'Requests', values: [5, 0, 0] });
});

test('concurrent requests share one look-up', async (t) => {
  let now = 0;
  let looks = 0;
  const shared = new CachedValue(
    async () => {
      looks += 1;
      if (looks === 3) throw new Error('stopped');
      return { looks };
    },
    1000,
    () => now,
  );
  const [first, second] = await Promise.all([shared.get(), shared.get()]);
  t.is(first, second);
  now = 999;
  t.is(await shared.get(), first);
  now = 1000;
  t.is((await shared.get()).looks, 2);
  shared.forget();
  await t.throwsAsync(shared.get());
  t.is((await shared.get()).looks, 4);
});

test('the result for the same object is computed once', (t) => {
  const make = memoizeByObject((list: readonly number[]) => ({ sum: list.length }));
  const list = [1, 2];
  t.is(make(list), make(list));
  t.not(make(list), make([1, 2]));
});

/** Sites on the status page of their centre. */

import { request } from 'node:http';
import test from 'ava';
import { timeElement } from '#salt-api/page/time-element.ts';
import { runCli } from '../cli/run-cli.ts';
import { type Centre, eventually, siteInfo, startCentre } from './edge-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';

interface Page {
  readonly status: number;
  readonly text: string;
  readonly cookie: string;
}

const password = 'secret';

/** Starts a centre with two users. `admin` has full rights, `fred` may run `test.ping`. */
function startWithUsers(t: Parameters<typeof startCentre>[0]): Promise<Centre> {
  return startCentre(t, {
    eauth: { sharedsecret: password },
    externalAuth: {
      sharedsecret: { admin: ['.*', '@runner', '@wheel'], fred: ['test.ping', '@runner'] },
    },
  });
}

function ask(
  centre: Centre,
  path: string,
  { cookie = '', form }: { readonly cookie?: string; readonly form?: object } = {},
): Promise<Page> {
  return new Promise((resolve, reject) => {
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const headers = { accept: 'text/html', cookie, ...(form === undefined ? {} : type) };
    const method = form === undefined ? 'GET' : 'POST';
    const sent = request(`${centre.url}${path}`, { method, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () => {
        const [set = ''] = answer.headers['set-cookie'] ?? [];
        resolve({ status: answer.statusCode ?? 0, text, cookie: set.split(';')[0] ?? '' });
      });
    });
    sent.on('error', reject);
    sent.end(form === undefined ? '' : String(new URLSearchParams({ ...form })));
  });
}

async function logIn(centre: Centre, username: string): Promise<string> {
  const form = { username, password, eauth: 'sharedsecret' };
  const { status, cookie } = await ask(centre, '/status/login', { form });
  if (status !== 303) throw new Error(`log-in: ${status}`);
  return cookie;
}

test('the status page shows sites by age, version and release, and each site with its ages', async (t) => {
  const centre = await startWithUsers(t);
  const north = await joinRaw(t, centre, 'north');
  await joinRaw(t, centre, 'south');
  const link = await RawLink.signIn(t, centre, north, { version: '0.9.<b>' });
  t.true(await link.isWelcome());
  const facts = { minion: 'web1', present: true, grains: {} };
  await link.ask('log.turn', {});
  await link.ask('log.fact', batchOf([entryOf(1, 'minion', facts, 1_000_000_000_000)]));
  const report = { version: 0, saltbridge: '0.9.0' };
  const failed = { version: 7, code: 'ERR_BUNDLE_CHECK', message: 'no <top> file' };
  t.like(await link.ask('bundle.report', { ...report, failed }), { kind: 'reply' });
  const cookie = await logIn(centre, 'admin');
  const { text } = await ask(centre, '/status', { cookie });
  t.regex(text, /<h2>Sites \(2\)<\/h2>/);
  t.regex(text, /<dt>Last contact<\/dt><dd>1 at most 10 minutes, 1 never connected<\/dd>/);
  t.regex(text, /<dt>Versions<\/dt><dd>0\.9\.&lt;b&gt;: 1, unknown: 1<\/dd>/);
  t.regex(text, /<a href="\/status\/site\?name=south">south<\/a><\/th><td>never<\/td>/);
  t.regex(text, /north<\/a><\/th><td>connected<\/td>/);
  const site = await ask(centre, '/status/site?name=north', { cookie });
  t.is(site.status, 200);
  const oldFacts = timeElement(1_000_000_000_000).text;
  t.true(site.text.includes(`<dd>1 present, 0 absent, as of ${oldFacts}</dd>`), site.text);
  t.regex(site.text, /7: ERR_BUNDLE_CHECK no &lt;top&gt; file/);
  t.regex(site.text, /<dt>Version<\/dt><dd>0\.9\.&lt;b&gt;, as of <time/);
  t.regex(site.text, /<dt>Release<\/dt><dd>none, as of <time/);
  t.true(site.text.includes(`<th scope="row">fact</th><td>1</td><td>${oldFacts}`), site.text);
  link.socket.terminate();
  await eventually(async () => !(await siteInfo(centre, 'north')).isConnected);
  const away = await ask(centre, '/status/site?name=north', { cookie });
  t.regex(away.text, /<dt>Last contact<\/dt><dd><time/);
  t.is((await ask(centre, '/status/site?name=west', { cookie })).status, 404);
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  const shown = await runCli(['site', 'show', 'north'], { openExtension });
  t.regex(shown.stdout, /^release {3}no release, as of \d{4}-/m);
  t.regex(shown.stdout, /^refused {3}release 7: ERR_BUNDLE_CHECK no <top> file$/m);
  t.regex(shown.stdout, /^minions {3}1 present, 0 absent, as of 2001-09-09T01:46:40.000Z$/m);
});

test('a site that reports a time beyond all dates spoils neither its page nor its inputs', async (t) => {
  const centre = await startWithUsers(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const inputs = { shared: 0, own: 0, grains: [] };
  await link.ask('log.turn', {});
  await link.ask('log.fact', batchOf([entryOf(1, 'inputs', inputs, Number.MAX_SAFE_INTEGER)]));
  const alarm = { tag: 'x', data: {} };
  await link.ask('log.alarm', batchOf([entryOf(1, 'event', alarm, Number.MAX_SAFE_INTEGER)]));
  const cookie = await logIn(centre, 'admin');
  t.is((await ask(centre, '/status/site?name=north', { cookie })).status, 200);
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  for (const command of ['inputs', 'list']) {
    const { code, stderr } = await runCli(['site', command], { openExtension });
    t.deepEqual([code, stderr], [0, ''], command);
  }
});

test('only users with full rights see sites, as with site list', async (t) => {
  const centre = await startWithUsers(t);
  await joinRaw(t, centre, 'north');
  const cookie = await logIn(centre, 'fred');
  const { text, status } = await ask(centre, '/status', { cookie });
  t.is(status, 200);
  t.notRegex(text, /north|Sites/);
  const site = await ask(centre, '/status/site?name=north', { cookie });
  t.notRegex(site.text, /north/);
  t.is(site.status, 401);
  t.is((await ask(centre, '/status/site?name=north')).status, 401);
});

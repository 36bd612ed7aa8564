/** Static files and the app page. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createSaltApi, SaltApiError } from '../../salt-api/index.ts';
import { json, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

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

test('files are served with the types that browsers expect', async (t) => {
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

test('nothing else is reached by a static path, and what is missing is 404', async (t) => {
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

test('browsers get the app page, and programs the API', async (t) => {
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

test('what an option names must be there', async (t) => {
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

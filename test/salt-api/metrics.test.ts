/** `/metrics`: what is in it, and who may read it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { json, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

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

test('docs/metrics.md names what is measured, and nothing else', async (t) => {
  const text = await read(await startApi(t));
  const document = readFileSync(
    fileURLToPath(new URL('../../../docs/metrics.md', import.meta.url)),
    'utf8',
  );
  const documented = [...document.slice(document.indexOf('| name')).matchAll(/^\| `(\w+)`/gm)].map(
    ([, name]) => name,
  );
  t.deepEqual(names(text).sort(), documented.sort());
});

test('a job is counted and timed from its publishing to its last return', async (t) => {
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

test('nothing that a minion says becomes a label', async (t) => {
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

test('metrics are read on this machine, not by a proxy and not under another name', async (t) => {
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

test('with a token, whoever has it reads metrics, and nobody else', async (t) => {
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

test('a token that could be guessed is not taken', async (t) => {
  const file = `${temporaryDirectory(t)}/token`;
  writeFileSync(file, 'short\n');
  await t.throwsAsync(startApi(t, { options: { metrics: file } }), { code: 'ERR_HTTP_LISTEN' });
});

test('metrics that are off are not there', async (t) => {
  const { ask } = await startApi(t, { options: { metrics: 'off' } });
  t.is((await ask({ path: '/metrics' })).status, 404);
});

/** Limit of the bytes of results that wait in responses. */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import test from 'ava';
import type { UserApi } from '#master';
import type { WireValue } from '#minion-protocol';
import { Budget } from '#runtime';
import { createSaltApi } from '#salt-api';
import { AnswerBytes } from '#salt-api/answer-bytes.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { runLocal } from '#salt-api/minion-clients.ts';
import { type ApiRequest, json, password, send, startApi } from '../helpers/salt-api.ts';
import { withMember } from '../helpers/with-member.ts';

test('returns of commands count for the user until the response ends', async (t) => {
  const budget = new Budget(apiLimits.answerBytes, { perOwner: 10_000, total: 15_000 });
  let sent = 0;
  const run: UserApi['jobs']['run'] = async function* () {
    for (const minion of ['a', 'b', 'c', 'd', 'e']) {
      sent += 1;
      const text = 'x'.repeat(3000);
      const done = { fun: 'test.echo', retcode: 0, success: true, receivedAt: 0, return: text };
      yield { type: 'return', jid: '1', minion, ...done };
    }
  };
  const unused = (): never => {
    throw new Error('not used');
  };
  const jobs = { run, batch: unused, publish: unused };
  const bytes = new AnswerBytes(budget);
  const deps = {
    ...{
      user: { jobs },
      warnings: new Set<string>(),
      hold: (it: WireValue) => bytes.take('u', it),
    },
    readWords: async () => ({ arg: [], kwarg: {} }),
  };
  const low = { client: 'local', tgt: '*', fun: 'test.echo' };
  const { signal } = new AbortController();
  await t.throwsAsync(runLocal(deps, low, signal), { code: 'ERR_LIMIT', message: /answerBytes/ });
  t.is(sent, 4);
  bytes.release();
  t.is(budget.total, 0);
  bytes.take('u', 'x'.repeat(20_000));
  t.is(budget.total, 0);
});

/** Returns the status of a response, and does not read the rest. */
async function statusOf(port: number, { body, ...request }: ApiRequest): Promise<number> {
  const outgoing = httpRequest({ port, host: '127.0.0.1', ...request });
  outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  const [response]: IncomingMessage[] = await once(outgoing, 'response');
  response?.destroy();
  return response?.statusCode ?? 0;
}

test('results of runners and wheel functions count on each path that sends them', async (t) => {
  const { master } = await startApi(t, { minions: [] });
  let copies = 0;
  // The copies share their memory. Each of them counts.
  const text = 'x'.repeat(1_048_576);
  const run = async ({ fun }: { readonly fun: string }) => {
    const value: WireValue = Array.from({ length: copies }, () => text);
    return { fun, jid: '1', success: true, return: value };
  };
  const asUser: typeof master.asUser = (token) => {
    const user = master.asUser(token);
    const runners = withMember(user.runners, 'run', run);
    return withMember(withMember(user, 'runners', runners), 'wheel', runners);
  };
  const api = await createSaltApi(withMember(master, 'asUser', asUser), { host: '127.0.0.1' });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const login = { method: 'POST', path: '/login', headers: json(), body: credentials };
  const headers = json(String((await send(port, login)).headers['x-auth-token']));
  const command = (client: string, fun: string) => ({
    method: 'POST',
    path: '/',
    headers,
    body: [{ client, fun }],
  });
  const requests = [
    ...['/jobs', '/jobs/1', '/keys', '/keys/a'].map((path) => ({ path, headers })),
    command('runner', 'jobs.list_jobs'),
    command('wheel', 'key.list_all'),
  ];
  for (const [count, status] of [
    [1, 200],
    [600, 429],
    [1, 200],
  ] as const) {
    copies = count;
    for (const request of requests) {
      t.is(await statusOf(port, request), status, request.path);
    }
  }
});

test('large results over /rpc count for the user until they are sent', async (t) => {
  const { master } = await startApi(t, { minions: [] });
  let copies = 0;
  const text = 'x'.repeat(1_048_576);
  const list = async () => Array.from({ length: copies }, () => text);
  const served = withMember(master, 'keys', withMember(master.keys, 'list', Object(list)));
  const api = await createSaltApi(served, { host: '127.0.0.1' });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const login = { method: 'POST', path: '/login', headers: json(), body: credentials };
  const headers = json(String((await send(port, login)).headers['x-auth-token']));
  const request = { method: 'POST', path: '/rpc/keys.list', headers, body: {} };
  for (const [count, status] of [
    [1, 200],
    [600, 400],
    [1, 200],
  ] as const) {
    copies = count;
    t.is(await statusOf(port, request), status);
  }
});

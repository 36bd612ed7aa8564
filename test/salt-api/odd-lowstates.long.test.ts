/** Odd commands are refused with 400, and no stack trace is logged. */

import test from 'ava';
import { json, startApi } from '../helpers/salt-api.ts';

const commands = {
  local: { tgt: 'web1', fun: 'test.ping' },
  local_async: { tgt: 'web1', fun: 'test.ping' },
  local_batch: { tgt: 'web1', fun: 'test.ping', batch: 1 },
  local_subset: { tgt: 'web1', fun: 'test.ping', subset: 1 },
  runner: { fun: 'jobs.list_jobs' },
  runner_async: { fun: 'jobs.list_jobs' },
  wheel: { fun: 'key.list_all' },
  wheel_async: { fun: 'key.list_all' },
} as const;

const deep = (levels: number): unknown =>
  Array.from({ length: levels }).reduce((inner) => [inner], 1 as unknown);
const deepMap = (levels: number): unknown =>
  Array.from({ length: levels }).reduce((inner) => ({ a: inner }), 1 as unknown);

const odd: readonly unknown[] = [
  [],
  {},
  [[]],
  [{}],
  { length: 3 },
  deep(15),
  deepMap(15),
  deep(90),
  deepMap(90),
  1e308,
  -1,
  2 ** 53,
  true,
  null,
  '',
  '\u0000',
  '__proto__',
  { __kwarg__: true },
  [{ __kwarg__: true, a: [] }],
  [deep(40)],
  { a: deep(40) },
  [{ a: 1 }, [deepMap(30)]],
  ['a=[[[[[[', 'b={'],
];

const fields = [
  ...['client', 'tgt', 'tgt_type', 'fun', 'arg', 'kwarg', 'timeout', 'gather_job_timeout', 'ret'],
  ...['jid', 'delimiter', 'metadata', 'full_return', 'batch', 'batch_wait', 'failhard', 'subset'],
  ...['match', 'username', 'other'],
];

test('a field of any form is refused with a status below 500, on each client', async (t) => {
  const { run, login } = await startApi(t, {
    minions: ['web1'],
    config: { timeout: 1, gatherJobTimeout: 1 },
  });
  // A user with few rights, because the policy reads the arguments too.
  const tokens = { admin: await login(), scoped: await login('scoped') };
  const failed: string[] = [];
  for (const [client, command] of Object.entries(commands)) {
    const token = client.endsWith('_async') ? tokens.admin : tokens.scoped;
    for (const field of fields) {
      const answers = odd.map(async (value) => {
        const { status, text } = await run(token, { client, ...command, [field]: value });
        // Salt's clients expect this status for an unknown function.
        const isUnknown = field === 'fun' && typeof value === 'string' && value !== '';
        if (status >= 500 && !isUnknown)
          failed.push(`${client} ${field} ${JSON.stringify(value)}: ${text}`);
      });
      await Promise.all(answers);
    }
  }
  t.deepEqual(failed, []);
});

test('other routes refuse odd bodies with a status below 500', async (t) => {
  const { ask, login } = await startApi(t, {
    minions: ['web1'],
    config: { timeout: 1, gatherJobTimeout: 1 },
  });
  const headers = json(await login());
  const failed: string[] = [];
  for (const path of ['/', '/run', '/minions', '/login', '/token', '/keys', '/hook/x']) {
    for (const body of [...odd, ...odd.map((value) => ({ mid: value, username: value }))]) {
      for (const type of ['application/json', 'application/x-yaml']) {
        const text = JSON.stringify(body);
        const given = { ...headers, 'content-type': type };
        const { status } = await ask({ method: 'POST', path, headers: given, body: text });
        if (status >= 500) failed.push(`${path} ${type} ${text}`);
      }
    }
  }
  t.deepEqual(failed, []);
});

test('a body that is no list of maps is refused with 400', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const bodies = [
    [[]],
    [[{ client: 'local' }]],
    1,
    'text',
    null,
    [null],
    deep(90),
    deepMap(90),
    [1],
  ];
  for (const body of bodies) {
    const { status, text } = await run(token, body as object);
    t.is(status, 400, `${JSON.stringify(body)}: ${text}`);
  }
});

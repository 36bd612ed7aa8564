/** What limited users get over HTTP [THREATS ]. */
import test from 'ava';
import { auditRecords } from '../helpers/audit-records.ts';
import { json, startApi } from '../helpers/salt-api.ts';

test('a user may what external_auth grants, by each client', async (t) => {
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

test('a target means what is granted of it, and none of that is what nobody may do', async (t) => {
  const { run, login } = await startApi(t);
  const token = await login('scoped');
  const low = { client: 'local', fun: 'test.ping' };
  const { json: body } = await run(token, { ...low, tgt: 'web*' });
  t.deepEqual(body, { return: [{ web1: true }] });
  for (const tgt of ['*', ['web1', 'db1']]) {
    t.deepEqual((await run(token, { ...low, tgt })).json, { return: [{ web1: true }] });
  }
  const compound = { ...low, tgt: 'web1 or db1', tgt_type: 'compound' };
  t.deepEqual((await run(token, compound)).json, { return: [{ web1: true }] });
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

test('who a command is of, and what only minions have, is never taken from it', async (t) => {
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

test('fred by another eauth is somebody else', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  await login('limited');
  const body = { username: 'limited', password: 'x', eauth: 'pam' };
  t.is((await ask({ method: 'POST', path: '/login', headers: json(), body })).status, 401);
});

test('a hook needs the right to fire events, and its path must be a tag', async (t) => {
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

test('who calls a hook is in the audit log, and that anybody could', async (t) => {
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

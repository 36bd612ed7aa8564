/** Runners and wheel functions of a running master. */
import test from 'ava';
import { saltRunners, saltWheels } from '../../../master/functions/caller.ts';
import { type FunctionCall, type Master, MasterError } from '../../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../../minion-protocol/index.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';

async function run(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.runners.run({ fun, arg });
  return plain(value);
}

async function wheel(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.wheel.run({ fun, arg });
  return plain(value);
}

function plain(value: WireValue): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([k, v]) => [k, plain(v)]));
  if (Array.isArray(value)) return value.map(plain);
  if (isWireMap(value)) {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  }
  return value;
}

test('jobs are listed, filtered and looked up', async (t) => {
  const { master } = await startFleet(t, { ids: ['a1', 'b1'] });
  const { jid } = await finish(master, { tgt: '*', fun: 'test.echo', arg: ['x'] });
  const { jid: later } = await finish(master, {
    tgt: 'a*',
    fun: 'test.ping',
    metadata: { ticket: 'X-1' },
  });
  const list = async (kwarg: WireMap): Promise<string[]> => {
    const { return: value } = await master.runners.run({ fun: 'jobs.list_jobs', kwarg });
    return value instanceof Map ? [...value.keys()].map(String) : [];
  };
  t.deepEqual(await list({}), [jid, later]);
  t.deepEqual(await list({ search_function: 'test.e*' }), [jid]);
  t.deepEqual(await list({ search_function: ['cmd.*', 'test.ping'] }), [later]);
  t.deepEqual(await list({ search_target: 'a*,c*' }), [later]);
  t.deepEqual(await list({ search_metadata: { ticket: 'X-1', other: 1 } }), [later]);
  t.deepEqual(await list({ start_time: later, search_function: 'test.*' }), [later]);
  t.deepEqual(await list({ end_time: jid }), [jid]);
  t.deepEqual(await list({ end_time: '2001, Jan 02 03:04' }), []);
  t.deepEqual(await list({ start_time: '2001-01-02', search_function: '*.ping' }), [later]);
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), { a1: 'x', b1: 'x' });
  t.like(await run(master, 'jobs.list_job', later), {
    jid: later,
    Function: 'test.ping',
    Target: 'a*',
    'Target-type': 'glob',
    Minions: ['a1'],
    Metadata: { ticket: 'X-1' },
    Result: { a1: { return: true, retcode: 0, success: true } },
  });
  t.deepEqual(
    Object.keys((await run(master, 'jobs.last_run', null, null, null, 'test.*')) as object),
    [later],
  );
  t.deepEqual(await run(master, 'jobs.exit_success', jid), { a1: true, b1: true });
  t.is(await run(master, 'jobs.last_run', null, null, null, 'no.such'), false);
});

async function finish(
  master: Master,
  request: Parameters<Master['jobs']['run']>[0],
): Promise<{ readonly jid: string }> {
  let jid = '';
  for await (const update of master.jobs.run(request)) jid = update.jid;
  return { jid };
}

test('a job that is not kept is shown as in Salt', async (t) => {
  const { master } = await startVectorMaster(t);
  const jid = '20200101000000000000';
  t.deepEqual(await run(master, 'jobs.list_job', jid), {
    jid,
    Error: 'Cannot contact returner or no job with this jid',
    StartTime: '2020, Jan 01 00:00:00.000000',
    Result: {},
  });
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), {});
});

test('minions that did not answer are told when they are asked for', async (t) => {
  const { master } = await startVectorMaster(t);
  const { jid } = await master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), {});
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid, null, true, true), {
    vecminion: 'Minion did not return',
  });
  t.deepEqual(await run(master, 'jobs.exit_success', jid), { vecminion: false });
});

test('manage asks minions, and tells who is there', async (t) => {
  const { master, minions } = await startFleet(t, { ids: ['a1', 'b1'] });
  t.deepEqual(await run(master, 'manage.up'), ['a1', 'b1']);
  t.deepEqual(await run(master, 'manage.status', true, 'a*'), { up: ['a1'], down: [] });
  t.deepEqual(await run(master, 'manage.alived'), ['a1', 'b1']);
  t.deepEqual(await run(master, 'manage.list_not_state'), []);
  t.deepEqual(await wheel(master, 'minions.connected'), ['a1', 'b1']);
  await minions.get('b1')?.stop();
  const short = { tgt: 'b1', timeout: 0.1, gather_job_timeout: 0.1 };
  for (const kwarg of [short, { ...short, removekeys: true }]) {
    const { return: down } = await master.runners.run({ fun: 'manage.down', kwarg });
    t.deepEqual(down, ['b1']);
  }
  t.deepEqual((await wheel(master, 'key.list', 'acc')) as unknown, { minions: ['a1'] });
});

test('the cache shows and forgets what is known of minions', async (t) => {
  const { master, ask } = await startVectorMaster(t, {
    pillar: async () => ({ role: 'web' }),
  });
  await ask(altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }));
  await ask(altered(recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1'), {}));
  t.like(await run(master, 'cache.grains', '*'), { vecminion: { id: 'vecminion' } });
  t.deepEqual(await run(master, 'cache.pillar', '*'), { vecminion: { role: 'web' } });
  t.deepEqual(await run(master, 'cache.list', 'minions'), ['vecminion']);
  t.like(await run(master, 'cache.fetch', 'minions/vecminion', 'data'), {
    pillar: { role: 'web' },
  });
  t.is(await run(master, 'cache.clear_pillar', '*'), true);
  t.deepEqual(await run(master, 'cache.pillar', '*'), {});
  t.like(await run(master, 'cache.grains', '*'), { vecminion: { id: 'vecminion' } });
  t.is(await run(master, 'cache.clear_grains', '*'), true);
  t.deepEqual(await run(master, 'cache.list', 'minions'), []);
  t.deepEqual(await run(master, 'cache.mine', '*'), {
    vecminion: { 'network.ip_addrs': ['192.0.2.10'], 'test.ping': true },
  });
  const flag = { clear_mine_func_flag: 'test.ping' };
  await master.runners.run({ fun: 'cache.clear_mine_func', arg: ['*'], kwarg: flag });
  t.deepEqual(await run(master, 'mine.get', '*', 'network.ip_addrs'), {
    vecminion: ['192.0.2.10'],
  });
  t.is(await run(master, 'cache.clear_mine', '*'), true);
  t.deepEqual(await run(master, 'cache.mine', '*'), {});
  t.is(await run(master, 'cache.clear_all'), false);
});

test('pillar is shown as it is made now', async (t) => {
  const { master } = await startVectorMaster(t, {
    pillar: async ({ id, grains, saltenv = '' }) => ({ id, saltenv, role: grains.role ?? null }),
  });
  const call = { fun: 'pillar.show_pillar', arg: ['web1'], kwarg: { role: 'db', saltenv: 'dev' } };
  const { return: value } = await master.runners.run(call);
  t.deepEqual(plain(value), { id: 'web1', saltenv: 'dev', role: 'db' });
});

test('runs are told as Salt tells them, and events are sent', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t);
  const events = await eventsDuring(() =>
    master.runners.run({ fun: 'event.send', arg: ['my/tag', { a: 1 }], user: 'root' }),
  );
  const [first, sent, last] = events;
  t.regex(first?.tag ?? '', /^salt\/run\/\d{20}\/new$/);
  t.like(first?.data, { fun: 'runner.event.send', user: 'root', fun_args: ['my/tag', { a: 1 }] });
  t.is(sent?.tag, 'my/tag');
  t.like(sent?.data, { a: 1 });
  t.is(last?.tag, first?.tag.replace(/new$/, 'ret'));
  t.like(last?.data, { fun: 'runner.event.send', return: true, success: true });
});

test('wheel functions are told under their own tags', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t);
  const events = await eventsDuring(() => master.wheel.run({ fun: 'key.list_all' }));
  t.deepEqual(
    events.map(({ tag }) => tag.replace(/\d{20}/, 'JID')),
    ['salt/wheel/JID/new', 'salt/wheel/JID/ret'],
  );
  for (const { data } of events) t.like(data, { fun: 'wheel.key.list_all', user: 'saltbridge' });
});

test('what was started and not waited for is kept as a job', async (t) => {
  const { master } = await startVectorMaster(t);
  const events = master.events.subscribe({ match: 'salt/run/*/ret' });
  const { jid, tag } = await master.runners.start({ fun: 'saltutil.sync_modules' });
  const reader = events[Symbol.asyncIterator]();
  const { value: event } = await reader.next();
  t.is(event?.tag, `${tag}/ret`);
  const kept = async (): Promise<unknown> => run(master, 'jobs.lookup_jid', jid);
  for (let found = await kept(); ; found = await kept()) {
    if (Object.keys(found as object).length === 0) continue;
    t.like(Object.values(found as object)[0], { fun: 'runner.saltutil.sync_modules', return: [] });
    break;
  }
});

test('a function that fails is a result', async (t) => {
  const { master } = await startVectorMaster(t, {
    pillar: async () => {
      throw new Error('no pillar today');
    },
  });
  const result = await master.runners.run({ fun: 'pillar.show_pillar' });
  t.like(result, { success: false, retcode: 1 });
  t.is(result.return, 'Exception occurred in runner pillar.show_pillar: no pillar today');
});

for (const [what, call, code] of [
  ['a function that nobody has', { fun: 'no.such' }, 'ERR_UNKNOWN_FUN'],
  ['a name on the table itself', { fun: 'constructor' }, 'ERR_UNKNOWN_FUN'],
  ['one that only Salt has', { fun: 'manage.safe_accept' }, 'ERR_NOT_SERVED'],
  ['an argument too many', { fun: 'event.send', arg: ['t', {}, 1] }, 'ERR_ARGS'],
  ['a keyword that it has not', { fun: 'manage.up', kwarg: { expr_form: 'glob' } }, 'ERR_ARGS'],
  ['a value of another type', { fun: 'event.send', arg: ['t', 'text'] }, 'ERR_ARGS'],
  ['a missing argument', { fun: 'jobs.lookup_jid' }, 'ERR_ARGS'],
  [
    'an argument that is given twice',
    { fun: 'jobs.lookup_jid', arg: ['1'], kwarg: { jid: '1' } },
    'ERR_ARGS',
  ],
  ['a jid that is none', { fun: 'manage.alived', jid: 'x' }, 'ERR_ARGS'],
] as const satisfies readonly (readonly [string, FunctionCall, string])[]) {
  test(`${what} is refused before anything is told`, async (t) => {
    const { master, eventsDuring } = await startVectorMaster(t);
    const events = await eventsDuring(() =>
      t.throwsAsync(master.runners.run(call), { instanceOf: MasterError, code }),
    );
    t.deepEqual(events, []);
  });
}

test('every function is one of Salt, and documented', async (t) => {
  const { master } = await startVectorMaster(t);
  for (const [api, known] of [
    [master.runners, saltRunners],
    [master.wheel, saltWheels],
  ] as const) {
    const docs = await api.docs();
    for (const [name, text] of Object.entries(docs)) {
      t.true(known.has(name), name);
      t.true(text.length > name.length + 4, name);
    }
  }
  t.deepEqual(Object.keys(await master.runners.docs('event')), ['event.send']);
  t.deepEqual(Object.keys(await master.runners.docs('event.send')), ['event.send']);
});

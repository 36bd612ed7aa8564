/** Handles of several owners: each has its own aliases and its own room. */
import test from 'ava';
import { memoryState, openTestSignals } from './open-signals.ts';
import { always, startRecorder } from './recorder.ts';

const closed = 'http://127.0.0.1:1';

function handle(owner: string, minion: string, more: object = {}) {
  const signal = { endpoint: `${closed}/${owner}`, token: 'tOken' };
  return { alias: 'ready', owner, minions: [minion], signal, ...more };
}

test('two owners use the same alias for different minions, and each signal goes to its own', async (t) => {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  for (const [owner, minion] of [
    ['a', 'm1'],
    ['b', 'm2'],
  ] as const) {
    const endpoint = `${service.origin}/${owner}`;
    await handles.add(handle(owner, minion, { signal: { endpoint, token: 'tOken' } }));
  }
  for (const minion of ['m2', 'm1']) {
    await signal(minion, 'heat/ready');
    await told('signal/delivered', service.requests.length + 1);
  }
  t.deepEqual(
    service.requests.map(({ path, body }) => [path, JSON.parse(body).id]),
    [
      ['/b', 'm2'],
      ['/a', 'm1'],
    ],
  );
});

test('no owner takes an alias of a minion that another one has, or replaces it', async (t) => {
  const { handles } = await openTestSignals(t, []);
  await handles.add(handle('a', 'm1'));
  for (const replaces of [false, true]) {
    const again = handles.add(handle('b', 'm1', { minions: ['m2', 'm1'] }), { replaces });
    await t.throwsAsync(again, { code: 'ERR_HANDLE_EXISTS' });
  }
  t.is((await handles.show('ready')).owner, 'a');
});

test('a handle that has expired keeps its alias from nobody else', async (t) => {
  let now = Date.now();
  const { handles, signal, told } = await openTestSignals(t, [], { now: () => now });
  await handles.add(handle('a', 'm1', { expiresAt: now + 1_000 }));
  now += 1_000;
  await handles.add(handle('b', 'm1'));
  await handles.remove('ready', { owner: 'a' });
  await signal('m1', 'heat/ready');
  t.like((await told('signal/accepted'))[0]?.data, { id: 'm1', handle: 'ready' });
});

test('where several owners have an alias, one must be named', async (t) => {
  const { handles } = await openTestSignals(t, []);
  await handles.add(handle('a', 'm1'));
  await handles.add(handle('b', 'm2'));
  for (const work of [handles.show('ready'), handles.remove('ready')]) {
    await t.throwsAsync(work, { code: 'ERR_HANDLE_AMBIGUOUS', message: /a, b$/ });
  }
  await handles.remove('ready', { owner: 'b' });
  t.is((await handles.show('ready')).owner, 'a');
  await t.throwsAsync(handles.show('ready', { owner: 'b' }), { code: 'ERR_HANDLE_UNKNOWN' });
});

test('the signals of an earlier owner of an alias are not for the next one', async (t) => {
  const { handles, signal, told, outbox } = await openTestSignals(t, []);
  await handles.add(handle('a', 'm1'));
  await signal('m1', 'heat/ready', { reason: 'of a' });
  await told('signal/failed');
  await handles.remove('ready', { owner: 'a' });
  await handles.add(handle('b', 'm1'));
  t.deepEqual(await outbox.list({ alias: 'ready', owner: 'b' }), []);
  t.deepEqual(await outbox.drop({ alias: 'ready', owner: 'b' }), []);
  t.is((await outbox.list({ alias: 'ready', owner: 'a' })).length, 1);
});

test('handles of one owner leave room for those of others', async (t) => {
  const section = { handle_bytes_per_owner: 1_000, handle_bytes: 4_000 };
  const state = memoryState();
  const { handles } = await openTestSignals(t, [], { section, state });
  const add = (owner: string, alias: string) => handles.add(handle(owner, 'm1', { alias }));
  await add('a', 'a1');
  await add('a', 'a2');
  await t.throwsAsync(add('a', 'a3'), { code: 'ERR_HANDLE_LIMIT' });
  await add('b', 'b1');
  await handles.remove('a1');
  await add('a', 'a3');
  const members = Array.from({ length: 20 }, (_, index) => `member-${index}-of-many`);
  const larger = handle('a', 'm1', { alias: 'a3', stack: 's'.repeat(256), members });
  await t.throwsAsync(handles.add(larger, { replaces: true }), { code: 'ERR_HANDLE_LIMIT' });
  t.is((await handles.show('a3')).stack, 'a3');
  const { handles: next } = await openTestSignals(t, [], { section, state });
  await t.throwsAsync(next.add(handle('a', 'm1', { alias: 'a4' })), { code: 'ERR_HANDLE_LIMIT' });
});

test('signals for the handles of one owner leave room for those of others', async (t) => {
  const section = { per_owner: 2, per_stack: 2 };
  const { handles, signal, fired } = await openTestSignals(t, [], { section, isStarted: false });
  for (const [owner, minion] of [
    ['a', 'm1'],
    ['b', 'm2'],
  ] as const) {
    for (const alias of ['x', 'y', 'z']) {
      await handles.add(handle(owner, minion, { alias, stack: 's' }));
    }
  }
  for (const alias of ['x', 'y', 'z']) await signal('m1', `heat/${alias}`);
  await signal('m2', 'heat/x');
  t.deepEqual(
    fired.map(({ tag, data }) => [tag, data.id]),
    [
      ['signal/accepted', 'm1'],
      ['signal/accepted', 'm1'],
      ['signal/refused', 'm1'],
      ['signal/accepted', 'm2'],
    ],
  );
});

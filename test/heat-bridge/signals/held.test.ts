/** Signals that come before their handle. */
import test, { type ExecutionContext } from 'ava';
import { memoryState, openTestSignals } from './open-signals.ts';
import { always, type Recorder, startRecorder } from './recorder.ts';

async function recorder(t: ExecutionContext): Promise<Recorder> {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  return service;
}

function handle(origin: string, more: object = {}) {
  const signal = { endpoint: `${origin}/v1/p/signal`, token: 'tOken' };
  return { alias: 'ready', minions: ['m1', 'm2'], signal, ...more };
}

/** The ids and data that a service was sent, in their order. */
function sent({ requests }: Recorder): unknown[] {
  return requests.map(({ body }) => JSON.parse(body)).map(({ id, data }) => [id, data]);
}

test('a signal for an alias that is not registered yet is delivered once it is', async (t) => {
  const service = await recorder(t);
  const { handles, signal, told, fired, outbox } = await openTestSignals(t, [service.origin]);
  for (const data of [1, 2]) await signal('m1', 'heat/ready', { data });
  await signal('m3', 'heat/ready', { data: 3 });
  t.deepEqual(
    fired.map(({ tag, data }) => [tag, data.id, data.handle]),
    [
      ['signal/held', 'm1', 'ready'],
      ['signal/held', 'm1', 'ready'],
      ['signal/held', 'm3', 'ready'],
    ],
  );
  t.deepEqual(
    (await outbox.list()).map(({ minion, state }) => [minion, state]),
    [
      ['m1', 'held'],
      ['m1', 'held'],
      ['m3', 'held'],
    ],
  );
  await handles.add(handle(service.origin));
  await signal('m1', 'heat/ready', { data: 4 });
  await told('signal/delivered', 3);
  t.deepEqual(sent(service), [
    ['m1', 1],
    ['m1', 2],
    ['m1', 4],
  ]);
  await handles.add(handle(service.origin, { minions: ['m1', 'm2', 'm3'] }), { replaces: true });
  await told('signal/delivered', 4);
  t.deepEqual(sent(service).at(-1), ['m3', 3]);
});

test('a signal that is written while its handle is registered is delivered', async (t) => {
  const service = await recorder(t);
  const { handles, signal, told } = await openTestSignals(t, [service.origin]);
  const both = [signal('m1', 'heat/ready', { data: 1 }), handles.add(handle(service.origin))];
  await Promise.all(both);
  await told('signal/delivered');
  t.deepEqual(sent(service), [['m1', 1]]);
});

test('a held signal is there after a crash, and the same request again adds none', async (t) => {
  const service = await recorder(t);
  const state = memoryState();
  const first = await openTestSignals(t, [service.origin], { state });
  await first.signal('m1', 'heat/ready', { data: 1 }, 'nonce');
  await first.signal('m2', 'heat/ready', { data: 2 });
  await first.close();
  const second = await openTestSignals(t, [service.origin], { state });
  await second.signal('m1', 'heat/ready', { data: 1 }, 'nonce');
  t.is((await second.outbox.list()).length, 2);
  await second.handles.add(handle(service.origin, { minions: ['m1'] }));
  await second.told('signal/delivered');
  await second.close();
  // The handle was registered, and the process ended before it got what was held for it.
  const third = await openTestSignals(t, [service.origin], { state, isStarted: false });
  await third.handles.add(handle(service.origin, { alias: 'other' }));
  await third.handles.add(handle(service.origin), { replaces: true });
  await third.close();
  const fourth = await openTestSignals(t, [service.origin], { state });
  await fourth.told('signal/delivered');
  t.deepEqual(sent(service), [
    ['m1', 1],
    ['m2', 2],
  ]);
});

test('a held signal that no handle comes for ends in the dead-letter list, with an event and an audit line', async (t) => {
  const service = await recorder(t);
  const { handles, signal, told, outbox, audited } = await openTestSignals(t, [service.origin], {
    section: { held_ttl: 0.02 },
  });
  await signal('m1', 'heat/ready', { data: 1 });
  const [failed] = await told('signal/failed');
  const reason = 'no handle was registered for it within 0.02 s';
  t.like(failed?.data, { id: 'm1', handle: 'ready', reason });
  const [entry] = await outbox.list({ isDead: true });
  t.like(entry, { alias: 'ready', minion: 'm1', state: 'dead', reason });
  t.deepEqual(audited, [
    {
      who: { kind: 'minion', name: 'm1' },
      action: 'signal',
      what: 'heat/ready',
      outcome: 'expired',
      detail: reason,
    },
  ]);
  await handles.add(handle(service.origin));
  await outbox.retry({});
  await told('signal/delivered');
  t.deepEqual(sent(service), [['m1', 1]]);
});

test('a minion has no more signals held than held_per_minion, and others have their own', async (t) => {
  const section = { held_per_minion: 2, held_ttl: 600 };
  const { signal, fired, outbox } = await openTestSignals(t, [], { section });
  await Promise.all([1, 2, 3, 4].map((data) => signal('m1', `heat/a${data}`, { data })));
  await signal('m2', 'heat/a1');
  const refused = fired.filter(({ tag }) => tag === 'signal/refused');
  t.deepEqual(
    refused.map(({ data }) => [data.id, data.reason]),
    Array(2).fill([
      'm1',
      'too many signals of this minion wait for handles that are not registered',
    ]),
  );
  t.is((await outbox.list()).length, 3);
});

test('signals without a handle leave most bytes of the outbox to those that have one', async (t) => {
  const section = { bytes: 8_000 };
  const { handles, signal, told } = await openTestSignals(t, [], { section, isStarted: false });
  const data = 'x'.repeat(1_500);
  await signal('m1', 'heat/other', { data });
  await signal('m2', 'heat/other', { data });
  const [refused] = await told('signal/refused');
  t.like(refused?.data, { id: 'm2', reason: 'the outbox is full' });
  await handles.add(handle('http://127.0.0.1:1'));
  await signal('m2', 'heat/ready', { data });
  await told('signal/accepted');
});

test('what a machine signalled does not count for the next one of its id', async (t) => {
  const service = await recorder(t);
  let key = 'aa:bb';
  const { handles, signal, told, fired, dismiss } = await openTestSignals(t, [service.origin], {
    keyOf: () => key,
  });
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready');
  await dismiss('m2');
  key = 'cc:dd';
  await handles.add(handle(service.origin));
  const failed = fired.filter(({ tag }) => tag === 'signal/failed');
  t.deepEqual(
    failed.map(({ data }) => [data.id, data.reason]),
    [
      ['m2', 'the minion was retired'],
      ['m1', 'the minion has another key now'],
    ],
  );
  await signal('m1', 'heat/ready', { data: 'new' });
  await told('signal/delivered');
  t.deepEqual(sent(service), [['m1', 'new']]);
});

test('a held signal for a member that the handle does not have is given up with the reason', async (t) => {
  const { handles, signal, told } = await openTestSignals(t, []);
  await signal('m1', 'heat/ready/db');
  await handles.add(handle('http://127.0.0.1:1'));
  const [failed] = await told('signal/failed');
  t.is(failed?.data.reason, 'the handle is not for this member');
});

test('where signals are not held, one without a handle is refused', async (t) => {
  const section = { held_ttl: 0 };
  const { signal, told, outbox } = await openTestSignals(t, [], { section });
  await signal('m1', 'heat/ready');
  const [refused] = await told('signal/refused');
  t.is(refused?.data.reason, 'no handle of this alias is registered for this minion');
  t.deepEqual(await outbox.list(), []);
});

test('a tag that can be no handle is held for none', async (t) => {
  const { signal, fired, outbox } = await openTestSignals(t, []);
  for (const tag of ['heat/', 'heat/a b', `heat/${'a'.repeat(65)}`, 'heat/a/b/c', 'other/a']) {
    await signal('m1', tag);
  }
  t.deepEqual(fired, []);
  t.deepEqual(await outbox.list(), []);
});

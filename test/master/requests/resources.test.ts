/**
 * What minions of 3008 manage besides themselves: registered, meant by targets, returned for.
 * Simulated from what Salt's source says: no recording exists.
 */
import test, { type ExecutionContext } from 'ava';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const anyRequest = recorded('minion_event', 'start event v3');
const pingReturn = recorded('return', 'simple v3');
const { minionId } = keys;

async function start(t: ExecutionContext, more: { directory?: string } = {}) {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: minionId, publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'other', publicPem: pem('other_minion').publicPem },
    ],
    config: { timeout: 0, gatherJobTimeout: 0, limits: { requestsPerSecond: 0 } },
    ...more,
  });
  return master;
}

async function register(
  master: VectorMaster,
  resources: WireValue,
): Promise<{ readonly value: WireValue; readonly tags: readonly string[] }> {
  const nonce = freshNonce();
  const load = { cmd: '_register_resources', resources, resource_grains: {}, nonce };
  const none = { tag: undefined, data: undefined, pretag: undefined };
  let value: WireValue = null;
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(altered(anyRequest, { load: { ...none, ...load } }));
    value = openReply(anyRequest, reply, nonce);
  });
  return { value, tags: events.map(({ tag }) => tag) };
}

async function giveBack(
  master: VectorMaster,
  load: Readonly<Record<string, WireValue | undefined>>,
): Promise<{ readonly value: WireValue; readonly tags: readonly string[] }> {
  const nonce = freshNonce();
  let value: WireValue = null;
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(altered(pingReturn, { load: { ...load, nonce } }));
    value = openReply(pingReturn, reply, nonce);
  });
  return { value, tags: events.map(({ tag }) => tag) };
}

test('what is registered is answered, told, and replaces what was registered before', async (t) => {
  const master = await start(t);
  const meant = async (tgt: string) =>
    (await master.master.jobs.plan({ tgt, tgtType: 'compound' })).minions.map(({ id }) => id);
  const told = { value: true, tags: [`resource/refresh/${minionId}`] };
  t.deepEqual(await register(master, {}), told);
  t.deepEqual(await meant('T@switch'), []);
  t.deepEqual(await register(master, { switch: ['sw1', 'sw2'], router: [] }), told);
  t.deepEqual(await meant('T@switch'), [minionId]);
  t.deepEqual(await meant('T@switch:sw2 and not other'), [minionId]);
  t.deepEqual(await meant('other or T@switch:sw2'), ['other', minionId]);
  t.deepEqual(await meant('T@switch:sw9 or T@router'), []);
  t.deepEqual(await register(master, { router: ['r1'] }), told);
  t.deepEqual([await meant('T@switch'), await meant('T@router:r1')], [[], [minionId]]);
});

test('what is no map of ids is refused and changes nothing', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1'] });
  for (const resources of [
    null,
    [],
    'sw1',
    { switch: 'sw1' },
    { switch: [7] },
    { switch: ['../x'] },
  ]) {
    t.deepEqual(await register(master, resources), { value: false, tags: [] });
  }
  t.is((await master.counters())['resources-refused'], 6);
  const plan = await master.master.jobs.plan({ tgt: 'T@switch:sw1', tgtType: 'compound' });
  t.is(plan.minions.length, 1);
});

test('each resource returns once for itself, beside the minion', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1', 'sw2'] });
  const { jid } = await master.master.jobs.publish({ tgt: minionId, fun: 'test.ping' });
  const told = (name: string) => ({ value: null, tags: [`salt/job/${jid}/ret/${name}`] });
  t.deepEqual(await giveBack(master, { jid, resource_id: 'sw1' }), told('sw1'));
  t.deepEqual(await giveBack(master, { jid, resource_id: 'sw2', retcode: 1 }), told('sw2'));
  t.deepEqual(await giveBack(master, { jid }), told(minionId));
  t.deepEqual(await giveBack(master, { jid, resource_id: 'sw1' }), { value: null, tags: [] });
  t.is((await master.counters())['repeated-return'], 1);
  const { returns, deliveries } = await master.master.jobs.show(jid);
  const names = returns.map(({ minion, resource }) => [minion, resource]);
  t.deepEqual(names, [
    [minionId, undefined],
    [minionId, 'sw1'],
    [minionId, 'sw2'],
  ]);
  t.like(deliveries, [{ minion: minionId, state: 'failed' }]);
});

test('a return for what the minion has not registered, or for another minion, is refused', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1', 'other'] });
  const { jid } = await master.master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  for (const id of ['sw2', 'other']) {
    t.deepEqual(await giveBack(master, { jid, resource_id: id }), { value: false, tags: [] }, id);
  }
  t.is((await master.counters())['return-own-resource'], 2);
  t.deepEqual((await master.master.jobs.show(jid)).returns, []);
});

test('a minion of which only resources have answered is not silent', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1', 'sw2'] });
  const request = { tgt: 'T@switch', tgtType: 'compound', fun: 'test.ping', timeout: 0.2 };
  const told: WireMap[] = [];
  for await (const update of master.master.jobs.run({ ...request, gatherJobTimeout: 0.1 })) {
    if (update.type === 'published')
      await giveBack(master, { jid: update.jid, resource_id: 'sw1' });
    if (update.type === 'return')
      told.push({ minion: update.minion, resource: update.resource ?? '' });
    if (update.type === 'finished') {
      t.like(update, { answered: [minionId], silent: [], reconnecting: [] });
    }
  }
  t.deepEqual(told, [{ minion: minionId, resource: 'sw1' }]);
});

test('a job for resources alone ends when each of them has returned', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1', 'sw2', 'sw3'], router: ['r1'] });
  for (const [tgt, expected] of [
    ['T@switch and not T@switch:sw3', ['sw1', 'sw2']],
    ['T@router or T@switch:sw3', ['r1', 'sw3']],
  ] as const) {
    const request = { tgt, tgtType: 'compound', fun: 'test.ping', timeout: 600 };
    const told: (string | undefined)[] = [];
    for await (const update of master.master.jobs.run(request)) {
      if (update.type === 'return') told.push(update.resource);
      if (update.type === 'finished') t.like(update, { answered: [minionId], silent: [] });
      if (update.type !== 'published') continue;
      t.deepEqual(update.minions, [minionId]);
      for (const id of expected) await giveBack(master, { jid: update.jid, resource_id: id });
    }
    t.deepEqual(told, expected);
  }
});

test('a job for resources ends too when the minion returns for itself', async (t) => {
  const master = await start(t);
  await register(master, { switch: ['sw1'] });
  const request = { tgt: 'T@switch', tgtType: 'compound', fun: 'test.ping', timeout: 600 };
  let answered: readonly string[] = [];
  for await (const update of master.master.jobs.run(request)) {
    if (update.type === 'published') await giveBack(master, { jid: update.jid });
    if (update.type === 'finished') ({ answered } = update);
  }
  t.deepEqual(answered, [minionId]);
});

test('resources survive a restart, and end with the key', async (t) => {
  const first = await start(t);
  await register(first, { switch: ['sw1'] });
  await first.master.close();
  const again = { directory: first.directory, store: first.store };
  const second = await startVectorMaster(t, again);
  const meant = async () =>
    (await second.master.jobs.plan({ tgt: 'T@switch', tgtType: 'compound' })).minions.length;
  t.is(await meant(), 1);
  await second.master.keys.delete({ match: minionId });
  t.is(await meant(), 0);
});

/** Recorded announcements, at a master with the recorded keys. */

import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import { type MasterOptions, resolveMasterConfig } from '#config';
import type { JobUpdate, PresentMinion } from '#master';
import { LastRequests, type RequestSource } from '#master/auth/last-requests.ts';
import { needingOwnRestart, presentMinions } from '#master/jobs/presence.ts';
import { Reconnecting } from '#master/jobs/reconnecting.ts';
import {
  createMinion,
  createTcpListener,
  factsOf,
  isWireMap,
  type MasterTransport,
  minionTopic,
  openValue,
  packWire,
  sealValue,
  unpackWire,
} from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { SubscriberInfo } from '#minion-protocol/transport/transport.ts';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { within } from '../../helpers/deadline.ts';
import { startKillable } from '../../helpers/killable-master.ts';
import { tcpVector } from '../../helpers/stream-masters.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import {
  directories,
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
  writeMasterKeys,
} from '../../helpers/vector-master.ts';
import { aesKey, sessionKey } from '../../helpers/vector-requests.ts';
import { base64, keys, pem } from '../../helpers/vectors.ts';
import { connectRaw, HOST, type RawPeer } from '../../helpers/zeromq-master.ts';
import { eventually } from '../../interop/eventually.ts';

const releases = ['minion 3004.2', 'minion 3007.x'];
const recorded = `presence announcement on the publish connection, ${releases[1]}`;

for (const release of releases) {
  test(`the announcement of a ${release} is accepted and reported`, async (t) => {
    const { running, announce } = await start(t);
    const peer = await announce(
      frameOf(`presence announcement on the publish connection, ${release}`),
    );
    await eventually('it', async () => (await running.master.presence()).length === 1);
    const about = { transport: 'tcp', address: HOST, by: 'announcement', isSure: true };
    t.deepEqual(await running.master.presence(), [{ id: keys.minionId, ...about }]);
    peer.socket.destroy();
    await eventually('its end', async () => (await running.master.presence()).length === 0);
  });
}

const load = announcedLoad();

for (const [title, body] of [
  ['under a key that is not the publish key', { enc: 'aes', load: sealValue(sessionKey, load) }],
  ['for an id that has no key', sealed({ ...load, id: 'another' })],
  ['with the token of another', sealed({ ...load, tok: new Uint8Array(256) })],
  ['without a token', sealed({ id: keys.minionId })],
  ['with an id that is no text', sealed({ ...load, id: 7 })],
  ['that is no map inside', { enc: 'aes', load: sealValue(aesKey, ['x']) }],
  ['in the clear', { enc: 'clear', load }],
  ['that is a text', 'hello'],
] as const) {
  test(`an announcement ${title} is refused, and its connection stays`, async (t) => {
    const { running, announce } = await start(t);
    const peer = await announce(
      Buffer.concat([Buffer.from('82a46865616480a4626f6479', 'hex'), packWire(body)]),
    );
    await eventually('the refusal', async () => {
      const counters = await running.counters();
      return counters['announcement-refused'] === 1;
    });
    t.deepEqual(await running.master.presence(), []);
    t.is((await running.master.status()).subscribers, 1);
    t.false(peer.socket.destroyed);
  });
}

test('an announcement with a key that is not accepted is refused', async (t) => {
  const pending = {
    directory: 'minions_pre',
    id: keys.minionId,
    publicPem: pem('minion').publicPem,
  } as const;
  const { running, announce } = await start(t, {}, [pending]);
  await announce(frameOf(recorded));
  await eventually(
    'the refusal',
    async () => (await running.counters())['announcement-refused'] === 1,
  );
  t.deepEqual(await running.master.presence(), []);
});

test('deleting the key ends the connection that it announced', async (t) => {
  const { running, announce } = await start(t);
  const peer = await announce(frameOf(recorded));
  await eventually('it', async () => (await running.master.presence()).length === 1);
  await running.master.keys.delete({ match: keys.minionId });
  await peer.closed('of the deleted key');
  t.is((await running.master.status()).subscribers, 0);
});

test('presence_events report minions that arrive, are present, and leave', async (t) => {
  const { running, announce } = await start(t, { presenceEvents: true, loopInterval: 1 });
  const events = await running.master.events.subscribe({ match: 'salt/presence/*' });
  const next = async (): Promise<unknown> => {
    const { value } = await within('a presence event', events[Symbol.asyncIterator]().next());
    const { _stamp, ...data } = value?.data ?? {};
    return [value?.tag, data];
  };
  const peer = await announce(frameOf(recorded));
  let reported = await next();
  while (JSON.stringify(reported) === '["salt/presence/present",{"present":[]}]')
    reported = await next();
  t.deepEqual(reported, ['salt/presence/change', { new: [keys.minionId], lost: [] }]);
  t.deepEqual(await next(), ['salt/presence/present', { present: [keys.minionId] }]);
  t.deepEqual(await next(), ['salt/presence/present', { present: [keys.minionId] }]);
  peer.socket.destroy();
  do reported = await next();
  while (JSON.stringify(reported).includes('present",{"present":["'));
  t.deepEqual(reported, ['salt/presence/change', { new: [], lost: [keys.minionId] }]);
  t.deepEqual(await next(), ['salt/presence/present', { present: [] }]);
});

async function start(
  t: ExecutionContext,
  config: Partial<MasterOptions> = {},
  storedKeys?: readonly StoredKey[],
): Promise<{ running: VectorMaster; announce: (frame: Uint8Array) => Promise<RawPeer> }> {
  const transport = createTcpListener({ host: HOST, requestPort: 0, publishPort: 0 });
  const running = await startVectorMaster(t, {
    transport,
    config,
    ...(storedKeys === undefined ? {} : { keys: storedKeys }),
  });
  const { publishPort } = await running.master.status();
  const announce = async (frame: Uint8Array): Promise<RawPeer> => {
    const peer = await connectRaw(t, publishPort);
    peer.write(frame);
    return peer;
  };
  return { running, announce };
}

function frameOf(name: string): Buffer {
  return base64(tcpVector(name).frame_b64);
}

/** Returns the load of a real minion's announcement. */
function announcedLoad() {
  const frame = unpackWire(frameOf(recorded));
  const body = isWireMap(frame) ? frame.body : undefined;
  const blob = isWireMap(body) ? body.load : undefined;
  if (!(blob instanceof Uint8Array)) throw new Error('no announcement');
  const opened = openValue(aesKey, blob);
  if (!isWireMap(opened)) throw new Error('no map');
  return opened;
}

function sealed(value: Parameters<typeof sealValue>[1]) {
  return { enc: 'aes', load: sealValue(aesKey, value), version: 3 };
}

// Which minions are present, and how the master knows.

/** Returns a transport with these subscribers. */
function transport(name: string, subscribers: readonly Partial<SubscriberInfo>[]): MasterTransport {
  const { master } = createMemoryTransport();
  const complete = {
    address: '10.0.0.1',
    connectedAt: 0,
    topics: [''],
    minionIds: [],
    queuedBytes: 0,
  };
  return {
    name,
    listen: (handler) => master.listen(handler),
    publish: (publication) => master.publish(publication),
    disconnect: (id) => master.disconnect(id),
    subscribers: () => subscribers.map((subscriber) => ({ ...complete, ...subscriber })),
    refusals: () => ({}),
    close: () => master.close(),
  };
}

function present(
  transports: readonly MasterTransport[],
  ids: readonly string[],
  heard: Readonly<Record<string, RequestSource>> = {},
) {
  return presentMinions(transports, { acceptedIds: () => ids, lastRemote: (id) => heard[id] });
}

const here = { address: '10.0.0.1', transport: 'zeromq' };

test('a minion that announced itself is present, from any address', (t) => {
  const tcp = transport('tcp', [{ minionIds: ['one'] }]);
  t.deepEqual(present([tcp], ['one', 'two']), [
    { id: 'one', transport: 'tcp', address: '10.0.0.1', by: 'announcement', isSure: true },
  ]);
});

test('a minion without an accepted key is not present', (t) => {
  t.deepEqual(present([transport('tcp', [{ minionIds: ['one'] }])], []), []);
});

test('a subscriber of its own topic is present, and certainly so if the same address sends requests', (t) => {
  const filtering = transport('zeromq', [{ topics: ['broadcast', minionTopic('one')] }]);
  const elsewhere = { ...here, address: '10.0.0.2' };
  const sureness = (heard: Record<string, RequestSource>) =>
    present([filtering], ['one', 'two'], heard).map(({ id, by, isSure }) => [id, by, isSure]);
  t.deepEqual(sureness({}), [['one', 'topic', false]]);
  t.deepEqual(sureness({ one: elsewhere }), [['one', 'topic', false]]);
  t.deepEqual(sureness({ one: here, two: here }), [['one', 'topic', true]]);
});

test('a minion is present if its address subscribes, and other subscribers do not count', (t) => {
  const heard = { one: here, two: { ...here, address: '10.0.0.2' } };
  t.deepEqual(present([transport('zeromq', [{}])], ['one', 'two', 'silent'], heard), [
    { id: 'one', transport: 'zeromq', address: '10.0.0.1', by: 'address', isSure: true },
  ]);
});

test('more minions than connections at an address are possibly present', (t) => {
  const heard = { one: here, two: here };
  const sure = (connections: number) =>
    present([transport('zeromq', Array(connections).fill({}))], ['one', 'two'], heard).map(
      ({ isSure }) => isSure,
    );
  t.deepEqual(sure(0), []);
  t.deepEqual(sure(1), [false, false]);
  t.deepEqual(sure(2), [true, true]);
});

test('an address on one transport has no meaning for another', (t) => {
  const heard = { one: here };
  t.deepEqual(present([transport('ws', [{}])], ['one'], heard), []);
});

test('the connection of an announced minion does not count for others', (t) => {
  const heard = { two: { address: '10.0.0.1', transport: 'tcp' } };
  const ids = present([transport('tcp', [{ minionIds: ['one'] }])], ['one', 'two'], heard);
  t.deepEqual(
    ids.map(({ id }) => id),
    ['one'],
  );
});

function presentMinion(id: string, transport: string): PresentMinion {
  return { id, transport, address: '192.0.2.1', by: 'announcement', isSure: true };
}

test('minions over WebSocket, and of 3007 and later over TCP, do not reconnect by themselves', (t) => {
  const releases: Readonly<Record<string, string>> = {
    old: '3006.16',
    new: '3007.8',
    newer: '3008.0+12.gabc',
    zero: '3007.9',
  };
  const factsFor = (id: string) => {
    const saltversion = releases[id];
    return { grains: saltversion === undefined ? undefined : factsOf({ saltversion }) };
  };
  const minions = [
    presentMinion('old', 'tcp'),
    presentMinion('new', 'tcp'),
    presentMinion('newer', 'tcp'),
    presentMinion('unknown', 'tcp'),
    presentMinion('web', 'ws'),
    presentMinion('zero', 'zeromq'),
  ];
  t.deepEqual(needingOwnRestart(minions, factsFor), ['new', 'newer', 'web']);
});

// After a restart of the master, some minions have not reconnected yet.

const from = { address: '192.0.2.1', transport: 'zeromq' };

function reconnecting(signedIn: readonly string[]) {
  const clock = { now: 1_000_000 };
  const lastRequests = new LastRequests();
  const it = new Reconnecting({ signedIn, waitMs: 3000, lastRequests, now: () => clock.now });
  return { it, clock, hear: (id: string) => lastRequests.note(id, clock.now, from) };
}

test('a publication is held while one of its minions is away', (t) => {
  const { it, hear } = reconnecting(['m1', 'm2']);
  t.is(it.holdMs(['m1', 'm9']), 3000);
  t.is(it.holdMs(['m9']), 0);
  hear('m1');
  t.is(it.holdMs(['m1']), 0);
  t.is(it.holdMs(['m1', 'm2']), 3000);
});

test('only a minion that is late for a job was reconnecting', (t) => {
  const { it, clock, hear } = reconnecting(['late', 'quick', 'away']);
  const publishedAt = clock.now;
  clock.now += 2000;
  hear('quick');
  clock.now += 2000;
  hear('late');
  const of = (id: string, at = publishedAt): boolean => it.isReconnecting(id, at);
  t.deepEqual([of('late'), of('quick'), of('away'), of('other')], [true, false, true, false]);
  t.false(of('late', clock.now), 'it is here when the next one is published');
  t.false(of('late', publishedAt - 1), 'what the master before published was not missed by it');
});

test('two minutes after the start no minion counts as reconnecting', (t) => {
  const { it, clock } = reconnecting(['m1']);
  clock.now += 119_999;
  t.true(it.isReconnecting('m1', clock.now));
  clock.now += 1;
  t.false(it.isReconnecting('m1', clock.now));
  t.is(it.holdMs(['m1']), 0);
});

test('a job published right after a kill of the master reaches minions that reconnect', async (t) => {
  t.timeout(60_000);
  const field = await startKillable(t, 'auto_accept: true\nsaltbridge:\n  reconnect_wait: 30\n');
  await Promise.all([field.join('m1'), field.join('m2')]);
  await field.master.kill();
  field.master.spawn();
  await within('the master', field.master.ready());
  const { jobs } = connectMaster({ socketPath: field.socketPath });
  const updates: JobUpdate[] = [];
  for await (const update of jobs.run({ tgt: '*', fun: 'test.ping', timeoutSeconds: 40 })) {
    updates.push(update);
  }
  t.like(updates[0], { type: 'published', minions: ['m1', 'm2'] });
  const finished = updates.at(-1);
  if (finished?.type !== 'finished') return t.fail();
  t.deepEqual([...finished.answered].sort(), ['m1', 'm2']);
  t.is(updates.filter(({ type }) => type === 'return').length, 2);
});

test('a minion that stays away is reported as reconnecting, not as silent', async (t) => {
  const directory = temporaryDirectory(t);
  const store = createMemoryStore();
  const start = async () => {
    const memory = createMemoryTransport();
    const config = resolveMasterConfig({
      ...directories(directory),
      autoAccept: true,
      timeout: 0,
      gatherJobTimeout: 0,
    });
    writeMasterKeys(config.pkiDir);
    const master = createMaster({ config, store, transports: [memory.master] });
    t.teardown(() => master.close());
    await master.start();
    return { master, memory };
  };
  const before = await start();
  const keys = { ...pem('minion'), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({ id: 'm1', transport: before.memory.dial('m1'), keys });
  await minion.start();
  await minion.stop();
  await before.master.close();
  const { master } = await start();
  const request = { tgt: '*', fun: 'test.ping', timeoutSeconds: 0.1, gatherJobTimeoutSeconds: 0.1 };
  const updates: JobUpdate[] = [];
  for await (const update of master.jobs.run(request)) updates.push(update);
  const finished = updates.at(-1);
  t.like(finished, {
    type: 'finished',
    silent: [],
    reconnecting: ['m1'],
    deliveries: [{ minion: 'm1', state: 'reconnecting' }],
  });
  t.like((await master.jobs.list())[0]?.counts, { reconnecting: 1, silent: 0 });
});

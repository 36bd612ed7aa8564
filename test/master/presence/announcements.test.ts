/** Recorded announcements at a master with the recorded keys. */
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '../../../master/index.ts';
import { openValue } from '../../../minion-protocol/crypticle.ts';
import {
  createTcpListener,
  packWire,
  sealValue,
  unpackWire,
} from '../../../minion-protocol/index.ts';
import { isWireMap } from '../../../minion-protocol/payload.ts';
import { within } from '../../helpers/deadline.ts';
import { tcpVector } from '../../helpers/stream-masters.ts';
import {
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
} from '../../helpers/vector-master.ts';
import { aesKey, sessionKey } from '../../helpers/vector-requests.ts';
import { base64, keys, pem } from '../../helpers/vectors.ts';
import { connectRaw, HOST, type RawPeer } from '../../helpers/zeromq-master.ts';
import { eventually } from '../../interop/eventually.ts';

const releases = ['minion 3004.2', 'minion 3007.x'];
const recorded = `presence announcement on the publish connection, ${releases[1]}`;

for (const release of releases) {
  test(`the announcement of a ${release} is believed, and told`, async (t) => {
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
  test(`an announcement ${title} is not believed, and its connection stays`, async (t) => {
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

test('an announcement of a key that is not accepted is not believed', async (t) => {
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

test('presence_events tell who came, who is there, and who went', async (t) => {
  const { running, announce } = await start(t, { presenceEvents: true, loopInterval: 1 });
  const events = running.master.events.subscribe({ match: 'salt/presence/*' });
  const next = async (): Promise<unknown> => {
    const { value } = await within('a presence event', events[Symbol.asyncIterator]().next());
    const { _stamp, ...data } = value?.data ?? {};
    return [value?.tag, data];
  };
  const peer = await announce(frameOf(recorded));
  let told = await next();
  while (JSON.stringify(told) === '["salt/presence/present",{"present":[]}]') told = await next();
  t.deepEqual(told, ['salt/presence/change', { new: [keys.minionId], lost: [] }]);
  t.deepEqual(await next(), ['salt/presence/present', { present: [keys.minionId] }]);
  t.deepEqual(await next(), ['salt/presence/present', { present: [keys.minionId] }]);
  peer.socket.destroy();
  do told = await next();
  while (JSON.stringify(told).includes('present",{"present":["'));
  t.deepEqual(told, ['salt/presence/change', { new: [], lost: [keys.minionId] }]);
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

/** What a real minion said. */
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

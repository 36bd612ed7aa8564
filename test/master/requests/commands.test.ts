/** What can be asked at all: a closed table, in the clear only two names [THREATS G-02, C-23]. */
import test from 'ava';
import { isWireMap, packWire, unpackWire, type WireMap } from '../../../minion-protocol/index.ts';
import { isHeard } from '../../helpers/genuine-minion.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';

const startEvent = recorded('minion_event', 'start event v3');
const pillarRequest = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');

const prototypeNames = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '__init__',
  '__class__',
  'get',
  'valueOf',
];

const internalNames = ['publish', 'runner', 'wheel', 'mk_token', 'get_token', '_prep_auth_info'];

test('names of prototypes and of internal methods are unknown commands', async (t) => {
  const { ask, counters } = await startVectorMaster(t);
  const names = [...prototypeNames, ...internalNames, '', ' _pillar', '_pillar\n', '_PILLAR'];
  for (const cmd of names) {
    const nonce = freshNonce();
    const reply = await ask(altered(startEvent, { load: { cmd, nonce } }));
    t.deepEqual(openReply(startEvent, reply, nonce), Object.create(null), cmd);
  }
  t.is((await counters())['unknown-cmd'], names.length);
});

test('a command that is no text is refused', async (t) => {
  const master = await startVectorMaster(t);
  for (const cmd of [undefined, null, 7, ['_pillar'], {}]) {
    const reply = await master.ask(altered(startEvent, { load: { cmd, nonce: freshNonce() } }));
    t.is(unpackWire(reply), 'Some exception handling minion payload');
  }
  t.is((await master.counters())['no-cmd'], 5);
  await isHeard(t, master);
});

test('in the clear, everything but _auth and ping is unknown', async (t) => {
  const { ask, counters, master } = await startVectorMaster(t);
  const encrypted = ['_return', '_pillar', '_minion_event', '_serve_file', '_master_opts'];
  const names = [...prototypeNames, ...internalNames, ...encrypted, ''];
  for (const cmd of names) {
    const load = { cmd, id: 'vecminion', tgt: '*', fun: 'test.ping', arg: [], key: 'x' };
    t.deepEqual(unpackWire(await ask(packWire({ enc: 'clear', load }))), Object.create(null), cmd);
  }
  t.is((await counters())['unknown-clear-cmd'], names.length);
  t.is((await master.status()).keys.accepted, 1);
});

test('a ping in the clear comes back', async (t) => {
  const { ask } = await startVectorMaster(t);
  const reply = unpackWire(await ask(packWire({ enc: 'clear', load: { cmd: 'ping', x: 1 } })));
  t.deepEqual({ ...Object(reply) }, { cmd: 'ping', x: 1 });
});

test('a request whose handler fails is answered with an empty text, and the next one is served', async (t) => {
  const master = await startVectorMaster(t);
  const { jid } = await published(master.master.jobs.run({ tgt: '*', fun: 'test.ping' }));
  const write = master.store.write.bind(master.store);
  master.store.write = async () => {
    throw new Error('the disk is full');
  };
  const vector = recorded('return', 'simple v2');
  const nonce = freshNonce();
  const reply = await master.ask(altered(vector, { load: { jid, nonce } }));
  t.is(openReply(vector, reply, nonce), '');
  t.is((await master.counters())['handler-failed'], 1);
  master.store.write = write;
  await isHeard(t, master);
});

test('pillars that cannot be sent fail one request each, however many there are', async (t) => {
  let pillar: unknown = { call: () => 'no value of the wire' };
  const { ask } = await startVectorMaster(t, { pillar: async () => pillar as WireMap });
  for (let count = 0; count < 10; count += 1) {
    const reply = await ask(altered(pillarRequest, { load: { nonce: freshNonce() } }));
    t.is(unpackWire(reply), 'Some exception handling minion payload');
  }
  pillar = { role: 'web' };
  const reply = unpackWire(await ask(altered(pillarRequest, { load: { nonce: freshNonce() } })));
  t.deepEqual(isWireMap(reply) ? Object.keys(reply).sort() : [], ['key', 'pillar']);
});

async function published(
  updates: AsyncIterable<{ readonly type: string; readonly jid: string }>,
): Promise<{ readonly jid: string }> {
  for await (const update of updates) return update;
  throw new Error('nothing was published');
}

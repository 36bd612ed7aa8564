/** Signals that the operator permits, on the wire: their tag, their data, their rate [THREATS M-05]. */
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '../../../master/index.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';

type Load = Readonly<Record<string, WireValue | undefined>>;

const startEvent = recorded('minion_event', 'start event v3');

async function start(t: ExecutionContext, acl: MasterOptions['acl']): Promise<VectorMaster> {
  return startVectorMaster(t, {
    config: { acl },
    pillar: async () => ({ stack: 'blue' }),
  });
}

/** The tags that are fired when a minion asks for one. */
async function fire(
  t: ExecutionContext,
  master: VectorMaster,
  load: Load,
): Promise<readonly string[]> {
  const events = await master.eventsDuring(async () => {
    const nonce = freshNonce();
    const reply = await master.ask(altered(startEvent, { load: { ...load, nonce } }));
    t.is(openReply(startEvent, reply, nonce), null);
  });
  return events.map(({ tag }) => tag);
}

function shapes(tag: string, data: WireValue): readonly (readonly [string, Load])[] {
  const [pretag = '', ...rest] = tag.split('/');
  const [events, prefixed] = [[{ tag, data }], [{ tag: rest.join('/'), data }]];
  return [
    ['single', { tag, data }],
    ['batch', { tag: undefined, data: undefined, events }],
    ['prefixed', { tag: undefined, data: undefined, pretag, events: prefixed }],
  ];
}

const schema = {
  type: 'object',
  required: ['env'],
  properties: { env: { enum: ['test', 'live'] } },
  additionalProperties: false,
};

for (const [index, shape] of ['single', 'batch', 'prefixed'].entries()) {
  test(`the data of a ${shape} signal must fit its schema`, async (t) => {
    const master = await start(t, { signals: [{ tag: 'infra/puppet', minions: '*', schema }] });
    const load = (data: WireValue): Load => shapes('infra/puppet', data)[index]?.[1] ?? {};
    t.deepEqual(await fire(t, master, load({ env: 'test' })), ['infra/puppet']);
    t.deepEqual(await fire(t, master, load({ env: 'test', __pub_jid: '1' })), ['infra/puppet']);
    t.deepEqual(await fire(t, master, load({ env: 'prod' })), []);
    t.deepEqual(await fire(t, master, load({ env: 'test', more: 1 })), []);
    t.deepEqual(await fire(t, master, load(null)), []);
  });
}

test('a signal has the size and the rate that its rule gives it', async (t) => {
  const signals = [
    { tag: 'small/one', minions: '*', bytes: 2048 },
    { tag: 'rare/one', minions: '*', rate: '2/hour' },
  ];
  const master = await start(t, { signals });
  const small = (length: number): WireMap => ({ tag: 'small/one', data: 'x'.repeat(length) });
  t.deepEqual(await fire(t, master, small(10)), ['small/one']);
  t.deepEqual(await fire(t, master, small(3000)), []);
  const events = Array.from({ length: 5 }, () => ({ tag: 'rare/one', data: {} }));
  t.deepEqual(await fire(t, master, { tag: undefined, data: undefined, events }), [
    'rare/one',
    'rare/one',
  ]);
});

test('a signal with the sender in its tag is fired for the sender alone', async (t) => {
  const tag = `deploy/\${minion.id}/done`;
  const master = await start(t, { signals: [{ tag, minions: '*' }] });
  const own = `deploy/${keys.minionId}/done`;
  t.deepEqual(await fire(t, master, { tag: own }), [own]);
  t.deepEqual(await fire(t, master, { tag: 'deploy/other/done' }), []);
});

test('a refused signal is told once a burst, by an event that no minion can forge', async (t) => {
  const master = await start(t, { signals: [{ tag: 's*', minions: '*' }] });
  const end = new AbortController();
  const denied = master.master.events.subscribe({ match: 'saltbridge/*' }, end.signal);
  const tag = `saltbridge/denied/${keys.minionId}`;
  for (let round = 0; round < 5; round += 1) await fire(t, master, { tag: 'my/tag' });
  await fire(t, master, { tag });
  end.abort();
  const told: WireMap[] = [];
  for await (const event of denied) {
    t.is(event.tag, tag);
    told.push(event.data);
  }
  t.deepEqual(
    told.map(({ id, tag: asked, rule }) => [id, asked, rule]),
    [
      [keys.minionId, 'my/tag', 'default-deny'],
      [keys.minionId, tag, 'masters-own-tags'],
    ],
  );
});

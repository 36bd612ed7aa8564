/** What a minion may fire: nothing but its own life signs, whatever the shape [THREATS M-05, M-15]. */
import test, { type ExecutionContext } from 'ava';
import type { MasterEvent } from '../../../master/index.ts';
import type { WireValue } from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { isHeard } from '../../helpers/genuine-minion.ts';
import { RECORDED_AT, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const start = `salt/minion/${keys.minionId}/start`;

type Load = Readonly<Record<string, WireValue | undefined>>;

async function fire(t: ExecutionContext, master: VectorMaster, load: Load): Promise<MasterEvent[]> {
  return master.eventsDuring(async () => {
    const nonce = freshNonce();
    const reply = await master.ask(altered(startEvent, { load: { ...load, nonce } }));
    t.is(openReply(startEvent, reply, nonce), null);
  });
}

/** The three ways to ask for a tag. */
const shapes: readonly (readonly [name: string, load: (tag: string) => Load])[] = [
  ['single', (tag) => ({ tag, data: {} })],
  ['batch', (tag) => ({ tag: undefined, data: undefined, events: [{ tag, data: {} }] })],
  [
    'prefixed',
    (tag) => {
      const end = Math.max(1, tag.lastIndexOf('/'));
      const events = [{ tag: tag.slice(end + 1) || 'x', data: {} }];
      return { tag: undefined, data: undefined, pretag: tag.slice(0, end), events };
    },
  ],
];

const foreignTags = [
  'salt/job/20240102030405678901/ret/other',
  'salt/job/20240102030405678901/new',
  `salt/job/20240102030405678901/prog/${keys.minionId}/0`,
  'salt/auth',
  'salt/key',
  'salt/run/20240102030405678901/new',
  'salt/wheel/20240102030405678901/new',
  'salt/presence/present',
  'salt/minion/other/start',
  'salt/beacon/other/load/',
  'salt/netapi/hook/x',
  'cluster/peer',
  'key',
  'my/tag',
  start.toUpperCase(),
  `salt//minion/${keys.minionId}/start`,
  `./salt/minion/${keys.minionId}/start`,
  `salt/minion/../minion/${keys.minionId}/start`,
  ` ${start}`,
  `${start} `,
  `${start}\n`,
  `${start}\n\n{"x":1}`,
  `salt/beacon/${keys.minionId}/\u0000`,
  `salt/beacon/${keys.minionId}/\r\n`,
  `salt/beacon/${keys.minionId}x/load`,
  start.replace('a', 'а'),
  `salt/beacon/${keys.minionId}/${'x'.repeat(600)}`,
];

for (const [name, loadOf] of shapes) {
  test(`no tag of others is fired from a ${name} event, and each is counted`, async (t) => {
    const master = await startVectorMaster(t, { config: { limits: { requestsPerSecond: 0 } } });
    for (const tag of foreignTags) {
      const before = total(await master.counters());
      t.deepEqual(await fire(t, master, loadOf(tag)), [], JSON.stringify(tag));
      t.true(total(await master.counters()) > before, JSON.stringify(tag));
    }
    t.deepEqual(await tagsOf(fire(t, master, loadOf(start))), [start]);
  });
}

test('a tag that the operator granted is fired, from the minions that it is granted to', async (t) => {
  const signals = [
    { tag: 'my/*', minions: keys.minionId },
    { tag: 'other/tag', minions: 'somebody-else' },
  ];
  const master = await startVectorMaster(t, { config: { acl: { signals } } });
  t.deepEqual(await tagsOf(fire(t, master, { tag: 'my/tag' })), ['my/tag']);
  t.deepEqual(await fire(t, master, { tag: 'other/tag' }), []);
  t.deepEqual(
    (await master.master.events.denials()).map(({ tag }) => tag),
    ['other/tag'],
  );
});

for (const [name, loadOf] of shapes) {
  test(`no grant fires a tag of the master's from a ${name} event`, async (t) => {
    const signals = [{ tag: '*s*', minions: '*' }];
    const master = await startVectorMaster(t, { config: { acl: { signals } } });
    for (const tag of foreignTags.filter((tag) => /^salt\/(job|auth|key|run|wheel)/.test(tag))) {
      const fired = await tagsOf(fire(t, master, loadOf(tag)));
      t.false(fired.includes(tag), tag);
    }
  });
}

test('a beacon without a name is not fired', async (t) => {
  const master = await startVectorMaster(t);
  t.deepEqual(await fire(t, master, { tag: `salt/beacon/${keys.minionId}/` }), []);
  t.is((await master.counters())['signal-default-deny'], 1);
});

test('the master says who an event is from', async (t) => {
  const master = await startVectorMaster(t);
  const events = [{ tag: start, data: { id: 'other', minions: ['other'], jid: '1' } }];
  const [event] = await fire(t, master, { tag: undefined, events });
  t.is(event?.data.id, keys.minionId);
  const beacon = [{ tag: `salt/beacon/${keys.minionId}/load`, data: 'text' }];
  const [other] = await fire(t, master, { tag: undefined, events: beacon });
  t.is(other?.data.id, keys.minionId);
});

test('progress of a job is told by those that it was published to', async (t) => {
  const master = await startVectorMaster(t);
  for await (const update of master.master.jobs.run({ tgt: '*', fun: 'test.ping' })) {
    if (update.type !== 'published') continue;
    const tag = `salt/job/${update.jid}/prog/${keys.minionId}/0`;
    t.deepEqual(await tagsOf(fire(t, master, { tag })), [tag]);
    const others = `salt/job/${update.jid}/prog/other/0`;
    t.deepEqual(await fire(t, master, { tag: others }), []);
    break;
  }
});

test('with startEvent minions are asked to tell the start, and each tells its own', async (t) => {
  const master = await startVectorMaster(t);
  let jid = '';
  const published = await master.eventsDuring(async () => {
    const request = { tgt: '*', fun: 'test.ping', startEvent: true };
    jid = (await master.master.jobs.publish(request)).jid;
  });
  t.is(published.find(({ tag }) => tag.endsWith('/publish'))?.data.start_event, true);
  const tag = `salt/job/${jid}/start/${keys.minionId}`;
  t.deepEqual(await tagsOf(fire(t, master, { tag })), [tag]);
  t.deepEqual(await fire(t, master, { tag: `salt/job/${jid}/start/other` }), []);
});

const malformed: readonly Load[] = [
  { tag: 7 },
  { tag: null },
  { tag: ['a'] },
  { tag: '' },
  { tag: 'x'.repeat(2000) },
  { events: 'text' },
  { events: [7] },
  { events: [{ tag: 7 }] },
  { events: [{}] },
  { events: Array.from({ length: 1001 }, () => ({ tag: start })) },
  { pretag: 7, events: [{ tag: start }] },
];

test('what has no form of an event is counted and fires nothing', async (t) => {
  const master = await startVectorMaster(t);
  for (const load of malformed) t.deepEqual(await fire(t, master, load), []);
  t.is((await master.counters())['malformed-event'], malformed.length);
  await isHeard(t, master);
});

test('events beyond the burst are dropped, counted, and nobody else is affected', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { eventsPerSecond: 1, burst: 5 } },
  });
  const events = Array.from({ length: 50 }, () => ({ tag: start, data: {} }));
  const fired = await fire(t, master, { tag: undefined, events });
  t.true(fired.length >= 5 && fired.length <= 7, `${fired.length} events`);
  t.is((await master.counters())['event-rate'], 50 - fired.length);
});

test('requests beyond the burst are delayed and answered', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { requestsPerSecond: 20, burst: 2 } },
  });
  const asked = Array.from({ length: 6 }, () => fire(t, master, {}));
  t.is((await Promise.all(asked)).length, 6);
});

test('what is not permitted is written nowhere', async (t) => {
  const memory = createMemoryStore({ now: () => RECORDED_AT });
  const written: unknown[] = [];
  const store = new Proxy(memory, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (name === 'write') written.push(name);
      return value.bind(target);
    },
  });
  const master = await startVectorMaster(t, { store });
  const events = Array.from({ length: 100 }, (_, index) => ({ tag: `flood/${index}`, data: {} }));
  // The first request of a minion is: it proves a protocol version.
  await isHeard(t, master);
  t.true(written.length > 0);
  const before = written.length;
  await fire(t, master, { tag: undefined, events });
  t.is((await master.counters())['signal-default-deny'], 100);
  t.is(written.length, before);
});

test('no more requests of a minion wait than a number, over however many connections', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { requestsPerSecond: 200, burst: 1 } },
  });
  const asked = Array.from({ length: 400 }, () =>
    master.ask(altered(startEvent, { load: { nonce: freshNonce() } })),
  );
  const outcomes = await Promise.allSettled(asked);
  const answered = outcomes.filter(({ status }) => status === 'fulfilled').length;
  // 128 wait, one needs not, and some get a place that has become free.
  t.true(answered >= 129 && answered < 300, `${answered} were answered`);
  t.is((await master.counters())['too-many-waiting'], 400 - answered);
});

test('an event that is too large is dropped and counted', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { eventBytes: 4096 } } });
  t.deepEqual(await fire(t, master, { data: 'x'.repeat(5000) }), []);
  t.is((await master.counters())['event-bytes'], 1);
  t.is((await fire(t, master, { data: 'x'.repeat(2000) })).length, 1);
});

test('a flood of tags that nobody permits is a few lines in the log', async (t) => {
  const master = await startVectorMaster(t);
  const events = Array.from({ length: 1000 }, (_, index) => ({ tag: `flood/${index}`, data: {} }));
  await fire(t, master, { tag: undefined, events });
  t.true((await master.master.events.denials()).length <= 20);
  t.is((await master.counters())['signal-default-deny'], 1000);
});

async function tagsOf(events: Promise<MasterEvent[]>): Promise<string[]> {
  return (await events).map(({ tag }) => tag);
}

function total(counters: Readonly<Record<string, number>>): number {
  return Object.values(counters).reduce((sum, count) => sum + count, 0);
}

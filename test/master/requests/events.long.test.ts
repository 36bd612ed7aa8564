/**
 * Events that a minion may fire: only its own start and beacon events, in any form of the request
 * [THREATS M-05, M-15].
 */

import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import type { MasterEvent, TargetPlan } from '#master';
import { isWireMap, packWire, unpackWire, type WireMap, type WireValue } from '#minion-protocol';
import { createMemoryStore } from '#store';
import { isHeard } from '../../helpers/genuine-minion.ts';
import { RECORDED_AT, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { base64, keys, pem } from '../../helpers/vectors.ts';

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

/** The three forms of a request that name a tag. */
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

test('a granted tag is fired, from the minions with the grant', async (t) => {
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
  test(`no grant permits a tag of the master from a ${name} event`, async (t) => {
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

test('the master sets the sender of an event', async (t) => {
  const master = await startVectorMaster(t);
  const events = [{ tag: start, data: { id: 'other', minions: ['other'], jid: '1' } }];
  const [event] = await fire(t, master, { tag: undefined, events });
  t.is(event?.data.id, keys.minionId);
  const beacon = [{ tag: `salt/beacon/${keys.minionId}/load`, data: 'text' }];
  const [other] = await fire(t, master, { tag: undefined, events: beacon });
  t.is(other?.data.id, keys.minionId);
});

test('only the minions of a job report its progress', async (t) => {
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

test('with startEvent minions report their start, each under its own id', async (t) => {
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

test('a malformed event is counted and fires nothing', async (t) => {
  const master = await startVectorMaster(t);
  for (const load of malformed) t.deepEqual(await fire(t, master, load), []);
  t.is((await master.counters())['malformed-event'], malformed.length);
  await isHeard(t, master);
});

test('events beyond the burst are dropped and counted, and others are not affected', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { eventsPerSecond: 1, burst: 5 } },
  });
  const events = Array.from({ length: 50 }, () => ({ tag: start, data: {} }));
  const begun = performance.now();
  const fired = await fire(t, master, { tag: undefined, events });
  const most = 6 + (performance.now() - begun) / 1000;
  t.true(fired.length >= 5 && fired.length <= most, `${fired.length} events`);
  t.is((await master.counters())['event-rate'], 50 - fired.length);
});

test('requests beyond the burst are delayed and answered', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { requestsPerSecond: 20, burst: 2 } },
  });
  const asked = Array.from({ length: 6 }, () => fire(t, master, {}));
  t.is((await Promise.all(asked)).length, 6);
});

test('a request that is not permitted writes nothing', async (t) => {
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
  // The first request is written to the store, because it proves a protocol version.
  await isHeard(t, master);
  t.true(written.length > 0);
  const before = written.length;
  await fire(t, master, { tag: undefined, events });
  t.is((await master.counters())['signal-default-deny'], 100);
  t.is(written.length, before);
});

test('the waiting requests of a minion are limited, over all its connections', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { requestsPerSecond: 200, burst: 1 } },
  });
  const begun = performance.now();
  let lastRefusal = begun;
  const asked = Array.from({ length: 400 }, async () => {
    try {
      await master.ask(altered(startEvent, { load: { nonce: freshNonce() } }));
      return true;
    } catch {
      lastRefusal = performance.now();
      return false;
    }
  });
  const answered = (await Promise.all(asked)).filter(Boolean).length;
  // 128 requests wait, one need not wait, and 200 per second get a free slot.
  const most = 130 + (lastRefusal - begun) / 5;
  t.true(answered >= 129 && answered <= most, `${answered} were answered`);
  t.is((await master.counters())['too-many-waiting'], 400 - answered);
});

test('an oversized event is trimmed, counted and listed', async (t) => {
  const master = await startVectorMaster(t, { config: { limits: { eventBytes: 4096 } } });
  const told = await fire(t, master, { data: 'x'.repeat(5000) });
  const [cut] = told.filter(({ tag }) => !tag.includes('denied'));
  t.is(cut?.data.data, 'VALUE_TRIMMED');
  t.is(typeof cut?.data.id, 'string');
  const [denial] = await master.master.events.denials();
  t.like(denial, { rule: 'event-bytes' });
  t.is((await master.counters())['event-bytes'], 1);
  t.is((await fire(t, master, { data: 'x'.repeat(2000) })).length, 1);
});

test('a flood of forbidden tags causes a few lines in the log', async (t) => {
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

// Signals that the operator permits: their tag, data and rate [THREATS M-05].

async function startWithAcl(t: ExecutionContext, acl: MasterOptions['acl']): Promise<VectorMaster> {
  return startVectorMaster(t, {
    config: { acl },
    pillar: async () => ({ stack: 'blue' }),
  });
}

/** Returns the tags that are fired when a minion requests one. */
async function fireSignal(
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

function signalShapes(tag: string, data: WireValue): readonly (readonly [string, Load])[] {
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
  test(`the data of a ${shape} signal must match its schema`, async (t) => {
    const master = await startWithAcl(t, {
      signals: [{ tag: 'infra/puppet', minions: '*', schema }],
    });
    const load = (data: WireValue): Load => signalShapes('infra/puppet', data)[index]?.[1] ?? {};
    t.deepEqual(await fireSignal(t, master, load({ env: 'test' })), ['infra/puppet']);
    t.deepEqual(await fireSignal(t, master, load({ env: 'test', __pub_jid: '1' })), [
      'infra/puppet',
    ]);
    t.deepEqual(await fireSignal(t, master, load({ env: 'prod' })), []);
    t.deepEqual(await fireSignal(t, master, load({ env: 'test', more: 1 })), []);
    t.deepEqual(await fireSignal(t, master, load(null)), []);
  });
}

test('the rule of a signal limits its size and rate', async (t) => {
  const signals = [
    { tag: 'small/one', minions: '*', bytes: 2048 },
    { tag: 'rare/one', minions: '*', rate: '2/hour' },
  ];
  const master = await startWithAcl(t, { signals });
  const small = (length: number): WireMap => ({ tag: 'small/one', data: 'x'.repeat(length) });
  t.deepEqual(await fireSignal(t, master, small(10)), ['small/one']);
  t.deepEqual(await fireSignal(t, master, small(3000)), []);
  const events = Array.from({ length: 5 }, () => ({ tag: 'rare/one', data: {} }));
  t.deepEqual(await fireSignal(t, master, { tag: undefined, data: undefined, events }), [
    'rare/one',
    'rare/one',
  ]);
});

test('a signal with the sender in its tag is fired only for that sender', async (t) => {
  const tag = `deploy/\${minion.id}/done`;
  const master = await startWithAcl(t, { signals: [{ tag, minions: '*' }] });
  const own = `deploy/${keys.minionId}/done`;
  t.deepEqual(await fireSignal(t, master, { tag: own }), [own]);
  t.deepEqual(await fireSignal(t, master, { tag: 'deploy/other/done' }), []);
});

test('a refused signal is reported once per burst, by an event that no minion can forge', async (t) => {
  const master = await startWithAcl(t, { signals: [{ tag: 's*', minions: '*' }] });
  const end = new AbortController();
  const denied = await master.master.events.subscribe({ match: 'saltbridge/*' }, end.signal);
  const tag = `saltbridge/denied/${keys.minionId}`;
  for (let round = 0; round < 5; round += 1) await fireSignal(t, master, { tag: 'my/tag' });
  await fireSignal(t, master, { tag });
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

// Resources that minions of 3008 manage: registration, targets and returns. They are simulated
// according to Salt's source, because there are no recordings.

const anyRequest = recorded('minion_event', 'start event v3');
const pingReturn = recorded('return', 'simple v3');
const { minionId } = keys;

async function startWithResources(t: ExecutionContext, more: { directory?: string } = {}) {
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

test('a registration is answered, emits events, and replaces the previous one', async (t) => {
  const master = await startWithResources(t);
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

test('a registration that is not a map of ids is refused and changes nothing', async (t) => {
  const master = await startWithResources(t);
  await register(master, { switch: ['sw1'] });
  for (const resources of [
    null,
    [],
    'sw1',
    { switch: 'sw1' },
    { switch: [7] },
    { switch: ['../x'] },
    Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`type${index}`, ['r1']])),
  ]) {
    t.deepEqual(await register(master, resources), { value: false, tags: [] });
  }
  t.is((await master.counters())['resources-refused'], 7);
  const plan = await master.master.jobs.plan({ tgt: 'T@switch:sw1', tgtType: 'compound' });
  t.is(plan.minions.length, 1);
});

test('each resource returns once for itself, beside the minion', async (t) => {
  const master = await startWithResources(t);
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

test('a return for an unregistered resource, or for another minion, is refused', async (t) => {
  const master = await startWithResources(t);
  await register(master, { switch: ['sw1', 'other'] });
  const { jid } = await master.master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  for (const id of ['sw2', 'other']) {
    t.deepEqual(await giveBack(master, { jid, resource_id: id }), { value: false, tags: [] }, id);
  }
  t.is((await master.counters())['return-own-resource'], 2);
  t.deepEqual((await master.master.jobs.show(jid)).returns, []);
});

test('a minion whose resources have answered is not silent', async (t) => {
  const master = await startWithResources(t);
  await register(master, { switch: ['sw1', 'sw2'] });
  const request = { tgt: 'T@switch', tgtType: 'compound', fun: 'test.ping', timeoutSeconds: 0.2 };
  const told: WireMap[] = [];
  for await (const update of master.master.jobs.run({ ...request, gatherJobTimeoutSeconds: 0.1 })) {
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

test('a job for resources only ends when each of them has returned', async (t) => {
  const master = await startWithResources(t);
  await register(master, { switch: ['sw1', 'sw2', 'sw3'], router: ['r1'] });
  for (const [tgt, expected] of [
    ['T@switch and not T@switch:sw3', ['sw1', 'sw2']],
    ['T@router or T@switch:sw3', ['r1', 'sw3']],
  ] as const) {
    const request = { tgt, tgtType: 'compound', fun: 'test.ping', timeoutSeconds: 600 };
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

test('a job for resources also ends when the minion returns for itself', async (t) => {
  const master = await startWithResources(t);
  await register(master, { switch: ['sw1'] });
  const request = { tgt: 'T@switch', tgtType: 'compound', fun: 'test.ping', timeoutSeconds: 600 };
  let answered: readonly string[] = [];
  for await (const update of master.master.jobs.run(request)) {
    if (update.type === 'published') await giveBack(master, { jid: update.jid });
    if (update.type === 'finished') ({ answered } = update);
  }
  t.deepEqual(answered, [minionId]);
});

test('resources survive a restart, and are removed with the key', async (t) => {
  const first = await startWithResources(t);
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

// The functions that can be requested: a closed table, and only two without encryption [THREATS
// G-02, C-23].

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

const commandsOfClients = ['publish', 'runner', 'wheel', 'mk_token', 'get_token'];
const internalNames = [...commandsOfClients, '_prep_auth_info'];

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

test('a command that is not text is refused', async (t) => {
  const master = await startVectorMaster(t);
  for (const cmd of [undefined, null, 7, ['_pillar'], {}]) {
    const reply = await master.ask(altered(startEvent, { load: { cmd, nonce: freshNonce() } }));
    t.is(unpackWire(reply), 'Some exception handling minion payload');
  }
  t.is((await master.counters())['no-cmd'], 5);
  await isHeard(t, master);
});

test('without encryption, all commands but _auth and ping are unknown', async (t) => {
  const { ask, counters, master } = await startVectorMaster(t);
  const encrypted = ['_return', '_pillar', '_minion_event', '_serve_file', '_master_opts'];
  const names = [...prototypeNames, '_prep_auth_info', ...encrypted, ''];
  for (const cmd of names) {
    const load = { cmd, id: 'vecminion', tgt: '*', fun: 'test.ping', arg: [], key: 'x' };
    t.deepEqual(unpackWire(await ask(packWire({ enc: 'clear', load }))), Object.create(null), cmd);
  }
  t.is((await counters())['unknown-clear-cmd'], names.length);
  t.is((await master.status()).keys.accepted, 1);
});

test('without encryption, commands of Salt’s own clients are refused by name', async (t) => {
  const { ask, counters } = await startVectorMaster(t);
  for (const cmd of commandsOfClients) {
    const load = { cmd, fun: 'file_roots.write', user: 'root', key: 'x', token: 'y' };
    const { error } = Object(unpackWire(await ask(packWire({ enc: 'clear', load }))));
    const text = cmd === 'publish' ? error : error.message;
    t.regex(text, new RegExp(`does not serve ${cmd};.*saltbridge localclient enable`), cmd);
  }
  t.is((await counters())['unknown-clear-cmd'], commandsOfClients.length);
});

test('a ping without encryption is answered', async (t) => {
  const { ask } = await startVectorMaster(t);
  const reply = unpackWire(await ask(packWire({ enc: 'clear', load: { cmd: 'ping', x: 1 } })));
  t.deepEqual({ ...Object(reply) }, { cmd: 'ping', x: 1 });
});

test('a request whose handler fails gets an empty text, and the next one is served', async (t) => {
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

test('each pillar that cannot be sent fails only its own request', async (t) => {
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

// From a recorded pillar request to the minions that a target matches.

const request = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
const pillar = async (): Promise<{ role: string }> => ({ role: 'web' });
const refreshed = `minion/refresh/${keys.minionId}`;

/** Returns the recorded request with these grains. */
function withGrains(grains: Record<string, string>): Buffer {
  return altered(request, { load: { grains, nonce: freshNonce() } });
}

async function reasonOf({ master }: VectorMaster, tgt: string, tgtType: string): Promise<string> {
  const { minions }: TargetPlan = await master.jobs.plan({ tgt, tgtType });
  return minions[0]?.reason ?? 'not meant';
}

test('targets match the data that a minion sends and its pillar', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'facts-unknown');
  await vector.ask(withGrains({ os: 'Debian' }));
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'matched');
  t.is(await reasonOf(vector, 'os:RedHat', 'grain'), 'not meant');
  t.is(await reasonOf(vector, 'role:web', 'pillar'), 'matched');
  t.is(await reasonOf(vector, 'role:w', 'pillar_exact'), 'not meant');
});

test('the id in the grains is the verified one', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  await vector.ask(withGrains({ id: 'other' }));
  t.is(await reasonOf(vector, 'id:other', 'grain'), 'not meant');
  t.is(await reasonOf(vector, `id:${keys.minionId}`, 'grain'), 'matched');
});

test('each pillar request reports new facts, like a real master', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  const events = await vector.eventsDuring(() => vector.ask(base64(request.request_b64)));
  t.like(events[0], { tag: refreshed, data: { 'Minion data cache refresh': keys.minionId } });
  t.is(events.length, 1);
});

test('minion_data_cache_events disables the event, and the facts are stored', async (t) => {
  const config = { minionDataCacheEvents: false };
  const vector = await startVectorMaster(t, { pillar, config });
  const events = await vector.eventsDuring(() => vector.ask(withGrains({ os: 'Debian' })));
  t.deepEqual(events, []);
  t.is(await reasonOf(vector, 'os:Debian', 'grain'), 'matched');
});

test('without minion_data_cache no facts are known, and every minion is a possible match', async (t) => {
  const vector = await startVectorMaster(t, { pillar, config: { minionDataCache: false } });
  const events = await vector.eventsDuring(() => vector.ask(withGrains({ os: 'Debian' })));
  t.deepEqual(events, []);
  t.is(await reasonOf(vector, 'os:RedHat', 'grain'), 'facts-unknown');
});

test('facts survive a restart of the master', async (t) => {
  const first = await startVectorMaster(t, { pillar });
  await first.ask(withGrains({ os: 'Debian' }));
  await first.master.close();
  const { directory, store } = first;
  const second = await startVectorMaster(t, { directory, store });
  t.is(await reasonOf(second, 'os:Debian', 'grain'), 'matched');
});

async function afterDeletion(vector: VectorMaster): Promise<string[]> {
  await vector.ask(withGrains({ os: 'Debian' }));
  await vector.master.keys.delete({ match: keys.minionId });
  await vector.master.close();
  const kept: string[] = [];
  for await (const { key } of vector.store.list(['minion-data'])) kept.push(key.at(-1) ?? '');
  return kept;
}

test('facts are removed with the key', async (t) => {
  t.deepEqual(await afterDeletion(await startVectorMaster(t, { pillar })), []);
});

test('preserve_minion_cache keeps facts if the key is deleted', async (t) => {
  const vector = await startVectorMaster(t, { pillar, config: { preserveMinionCache: true } });
  t.deepEqual(await afterDeletion(vector), [keys.minionId]);
});

test('a pillar that cannot be stored is still sent to the minion', async (t) => {
  const vector = await startVectorMaster(t, { pillar });
  const reply = await vector.ask(withGrains({ os: 'Debian' }));
  await vector.store.close();
  const again = await vector.ask(withGrains({ os: 'RedHat' }));
  t.true(again.length > reply.length / 2 && again.includes('pillar'));
});

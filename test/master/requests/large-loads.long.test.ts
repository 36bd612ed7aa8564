/**
 * The sender of a load pays for it before the master reads it. So a minion that sends large loads
 * delays only itself.
 */

import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { type Reply, send } from '#master';
import { DropConnectionError } from '#master/auth/index.ts';
import { openSeal } from '#master/auth/seal.ts';
import { requestLimits } from '#master/requests/limits.ts';
import { type LoadCost, LoadMeter, type LoadSender } from '#master/requests/load-meter.ts';
import {
  LoadOpener,
  type LoadOpenerOptions,
  type OpenedLoad,
} from '#master/requests/load-opener.ts';
import { Refusal } from '#master/requests/refusal.ts';
import { defineRequestType, type RequestType } from '#master/requests/request-type.ts';
import {
  type CheckedRequest,
  checkLoad,
  decodeEnvelope,
  generateKeyString,
  loadLimits,
  type Peer,
  type ProtocolVersion,
  packWire,
  parseKeyString,
  type SealedEnvelope,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { FairSlots } from '#runtime';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import { createMemoryStore, type Store } from '#store';
import { until } from '../../helpers/deadline.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import {
  directories,
  layOutVectorMaster,
  RECORDED_AT,
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys, pem } from '../../helpers/vectors.ts';

const megabyte = 1024 * 1024;
const key = parseKeyString(generateKeyString());
const nowSeconds = 1_700_000_000;
const peer: Peer = {
  address: '192.0.2.1',
  transport: 'memory',
  publishPort: 0,
  identify: () => {},
  noteRefusal: () => {},
};

const numbers = (count: number): number[] => Array.from({ length: count }, () => 1);
const keyed = (count: number): Map<string, number> =>
  new Map(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));

/** Returns an encrypted request. Default: of the minion web1. */
function sealed(
  load: WireMap,
  {
    version = 3,
    ts = nowSeconds,
    id = 'web1',
  }: { version?: ProtocolVersion; ts?: number; id?: string } = {},
): SealedEnvelope {
  const identity = { id, ts, tok: Buffer.from('token') };
  const bytes = encodeRequest({ enc: 'aes', version, key, load, nonce: freshNonce(), identity });
  const decoded = decodeEnvelope(bytes);
  if (!decoded.ok || decoded.envelope.enc !== 'aes') throw new Error('not an encrypted request');
  return decoded.envelope;
}

const usual = { kind: 'read', rate: 'requests', load: (load: WireMap) => load } as const;
const types: Readonly<Record<string, RequestType>> = {
  few: defineRequestType({ ...usual, needsToken: false, handle: () => send(null) }),
  many: defineRequestType({
    ...usual,
    needsToken: false,
    maxElements: 100_000,
    handle: () => send(null),
  }),
  returns: defineRequestType({
    ...usual,
    needsToken: false,
    needsSlot: true,
    rate: 'own',
    handle: () => send(null),
  }),
  proven: defineRequestType({ ...usual, needsToken: true, handle: () => send(null) }),
};

interface Charge extends LoadSender, LoadCost {}

/** Opens loads, and records the order of charges and checks. */
function opening(
  options: Partial<LoadOpenerOptions> & {
    readonly mayPass?: (charge: Charge) => boolean | Promise<true>;
    readonly serve?: (load: OpenedLoad) => Promise<unknown>;
  } = {},
) {
  const steps: string[] = [];
  const charges: Charge[] = [];
  const expired: unknown[] = [];
  const loads: WireValue[] = [];
  const { mayPass = () => true, serve = async (load) => load } = options;
  const meter = new LoadMeter(() => 0);
  meter.pass = (sender, cost) => {
    charges.push({ ...sender, ...cost });
    steps.push(cost.bytes > 0 ? 'bytes' : 'elements');
    return mayPass({ ...sender, ...cost });
  };
  meter.chargeExpired = (...given) => void expired.push(given);
  const opener = new LoadOpener({
    meter,
    table: new Map(Object.entries(types)),
    limits: loadLimits,
    check: (envelope, load): CheckedRequest => {
      steps.push('check');
      loads.push(load);
      const checked = checkLoad(envelope, load, { nowSeconds, ttlSeconds: 300 });
      if (!checked.ok) throw new Refusal(checked.code);
      return checked.request;
    },
    isRemembered: () => false,
    onTooMany: () => void steps.push('too many'),
    ...options,
  });
  const open = async (envelope: SealedEnvelope, withKey = key) =>
    opener.open({ envelope, key: withKey, peer, turn: { release: () => {} }, serve });
  return { open, steps, charges, expired, loads };
}

const dropped = { instanceOf: DropConnectionError };
const refusedAs = (reason: string) => ({ instanceOf: Refusal, message: reason });

test('a minion pays for the bytes of a load before it is decrypted, and for its elements before it is unpacked', async (t) => {
  for (const count of [3, 3000, 20_000]) {
    const { open, steps, charges } = opening();
    const envelope = sealed({ cmd: 'many', data: numbers(count) });
    await open(envelope);
    t.deepEqual(steps.slice(0, 3), ['bytes', 'check', 'elements'], String(count));
    t.like(charges[0], { minionId: 'web1', bytes: envelope.load.length, elements: 0 });
    // The list, and the fields cmd, data, nonce, id, ts and tok.
    t.like(charges[1], { minionId: 'web1', bytes: 0, elements: count + 6 });
  }
});

test('a load whose sender may not pass is not decrypted, and one with too many elements is not unpacked', async (t) => {
  const poor = opening({ mayPass: () => false });
  await t.throwsAsync(poor.open(sealed({ cmd: 'many', data: keyed(9000) })), dropped);
  t.deepEqual(poor.steps, ['bytes']);
  const poorer = opening({ mayPass: ({ elements }) => elements === 0 });
  await t.throwsAsync(poorer.open(sealed({ cmd: 'many', data: keyed(9000) })), dropped);
  t.deepEqual(poorer.steps, ['bytes', 'check', 'elements']);
  t.deepEqual(Object.keys(Object(poorer.loads[0])), ['cmd', 'nonce', 'id', 'ts', 'tok']);
});

test('a message that its key did not encrypt costs the named minion nothing', async (t) => {
  for (const size of [10, 500_000]) {
    const { open, charges } = opening();
    const envelope = sealed({ cmd: 'many', data: 'x'.repeat(size) });
    const other = parseKeyString(generateKeyString());
    await t.throwsAsync(open(envelope, other), refusedAs('ERR_BAD_HMAC'));
    t.deepEqual(charges, []);
  }
});

test('an expired request costs its address and not the minion', async (t) => {
  for (const size of [10, 9000]) {
    const { open, expired } = opening();
    const envelope = sealed({ cmd: 'many', data: numbers(size) }, { ts: nowSeconds - 301 });
    await t.throwsAsync(open(envelope), refusedAs('ERR_EXPIRED'));
    t.deepEqual(expired, [['web1', peer.address, { bytes: envelope.load.length, elements: 0 }]]);
  }
});

test('many expired requests of a minion block only its requests from their address', (t) => {
  const meter = new LoadMeter(() => 0);
  const cost = { bytes: 9 * megabyte, elements: 0 };
  const sender = { minionId: 'web1', address: '192.0.2.1' };
  for (let request = 0; request < 100; request += 1) {
    t.true(meter.pass(sender, cost));
    meter.chargeExpired('web1', '192.0.2.1', cost);
  }
  t.false(meter.permits('web1', '192.0.2.1'));
  t.true(meter.permits('web1', '192.0.2.2'));
  t.true(meter.permits('web2', '192.0.2.1'));
  t.true(meter.pass(sender, cost));
});

test('in protocol 2, the sender of a load is its address until its token is known', async (t) => {
  const load = { cmd: 'many', id: 'web1', data: numbers(9000) };
  const claimed = opening();
  const envelope = sealed(load, { version: 2 });
  await claimed.open(envelope);
  t.deepEqual(claimed.charges, [
    { minionId: undefined, address: peer.address, bytes: envelope.load.length, elements: 9004 },
  ]);
  const withToken = sealed({ ...load, tok: Buffer.from('token') }, { version: 2 });
  const unknown = opening();
  await unknown.open(withToken);
  t.is(unknown.charges[0]?.minionId, undefined);
  const known = opening({ isRemembered: (id, tok) => id === 'web1' && String(tok) === 'token' });
  await known.open(withToken);
  t.is(known.charges[0]?.minionId, 'web1');
});

test('a load that no handler reads is not unpacked', async (t) => {
  const data = keyed(9000);
  const unknown = opening();
  await unknown.open(sealed({ cmd: 'nosuch', data }));
  const unproven = opening();
  await unproven.open(sealed({ cmd: 'proven', id: 'web1', data }, { version: 2 }));
  for (const { loads } of [unknown, unproven]) {
    t.true(loads.every((load) => !('data' in Object(load))));
  }
  const read = opening();
  await read.open(sealed({ cmd: 'few', data }));
  t.true('data' in Object(read.loads.at(-1)));
});

test('a request may have as many elements as its type permits', async (t) => {
  for (const [cmd, most] of [
    ['few', 20_000],
    ['many', 100_000],
  ] as const) {
    const { open, steps } = opening();
    await open(sealed({ cmd, data: numbers(most - 6) }));
    t.false(steps.includes('too many'));
    await t.throwsAsync(
      open(sealed({ cmd, data: numbers(most - 5) })),
      refusedAs('ERR_PAYLOAD_LIMIT'),
    );
    t.true(steps.includes('too many'));
  }
});

test('a burst of loads passes, further loads wait, and too many are refused', (t) => {
  const meter = new LoadMeter(() => 0);
  const sender = { minionId: 'web1', address: '192.0.2.1' };
  const return5MB = { bytes: 5 * megabyte, elements: 20_000 };
  for (let request = 0; request < 5; request += 1) t.true(meter.pass(sender, return5MB));
  const largest = { bytes: 16 * megabyte, elements: 250_000 };
  const outcomes = Array.from({ length: 20 }, () => meter.pass(sender, largest));
  const waiting = outcomes.filter((outcome) => outcome instanceof Promise);
  // 128 MiB may wait. Each load weighs 23.6 MiB.
  t.is(waiting.length, 6);
  t.is(outcomes.at(-1), false);
  t.true(meter.pass({ ...sender, minionId: 'web2' }, largest));
  t.true(meter.pass({ ...sender, minionId: undefined }, largest));
});

const event = recorded('minion_event', 'start event v3');
const result = recorded('return', 'simple v3');

async function ask(master: VectorMaster, load: WireMap, address?: string): Promise<WireValue> {
  const nonce = freshNonce();
  return openReply(
    event,
    await master.ask(altered(event, { load: { ...load, nonce } }), address),
    nonce,
  );
}

test('unknown commands count towards the rate of requests', async (t) => {
  const master = await startVectorMaster(t, {
    config: { limits: { requestsPerSecond: 50, burst: 1 } },
  });
  const asked = Array.from({ length: 300 }, () => ask(master, { cmd: 'nosuch' }));
  const outcomes = await Promise.allSettled(asked);
  const refused = outcomes.filter(({ status }) => status === 'rejected').length;
  t.true(refused > 0, String(refused));
  t.is((await master.counters())['too-many-waiting'], refused);
});

test('large loads of a minion wait because of their size, over all its connections', async (t) => {
  const master = await startVectorMaster(t);
  const request = altered(event, { load: { cmd: 'nosuch', data: numbers(240_000) } });
  // Far more than the rate permits within a minute, so that a slow machine refuses some, too.
  const asked = Array.from({ length: 80 }, (_, index) =>
    master.ask(request, `192.0.2.${index}`).then(
      () => Promise.reject(new Error('answered')),
      () => 'refused',
    ),
  );
  t.is(await Promise.any(asked), 'refused');
  t.true(((await master.counters())['too-many-waiting'] ?? 0) > 0);
});

test.serial(
  'a large return is unpacked in slices, and a small request does not wait for it',
  async (t) => {
    const master = await startVectorMaster(t);
    await ask(master, { cmd: 'nosuch' });
    const order: string[] = [];
    const large = altered(result, {
      load: { jid: 'req', nonce: freshNonce(), return: keyed(200_000) },
    });
    const slices = await slicesOf(async () => {
      const stored = master.ask(large).then(() => order.push('large'));
      const small = ask(master, { cmd: 'nosuch' }).then(() => order.push('small'));
      await Promise.all([stored, small]);
    });
    t.deepEqual(order, ['small', 'large']);
    t.true(slices.length > 100, String(slices.length));
    t.true(Math.max(...slices) < 1.2 * maxSliceSteps);
  },
);

test.serial('a long text is unpacked in a slice of its own', async (t) => {
  const { open } = opening();
  const envelope = sealed({ cmd: 'returns', data: 'x'.repeat(2 * megabyte) });
  const slices = await slicesOf(() => open(envelope));
  // The slices of the decryption have 100,000 steps. The slice of the text also has those of its map.
  t.is(slices.filter((steps) => steps > 100_000).length, 1, String(slices));
});

const returnOf = (id: string, cmd = 'returns'): SealedEnvelope =>
  sealed({ cmd, data: 'x'.repeat(1.5 * megabyte) }, { id });
const never = new Promise<never>(() => {});
const five = ['web1', 'web2', 'web3', 'web4', 'web5'];

test('a minion has one slot for large loads, and its next load is not decrypted before it is free', async (t) => {
  const order: string[] = [];
  const started = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();
  const { open, loads } = opening({
    serve: async ({ checked: { id = '' } }) => {
      order.push(id);
      if (id !== 'web1') return;
      started.resolve();
      await first.promise;
    },
  });
  const asked = [open(returnOf('web1')), open(returnOf('web1'))];
  await started.promise;
  await open(returnOf('web2'));
  t.deepEqual(order, ['web1', 'web2']);
  // Each of the two loads was checked after its decryption, and again after it was unpacked.
  t.is(loads.length, 4);
  first.resolve();
  await Promise.all(asked);
  t.deepEqual(order, ['web1', 'web2', 'web1']);
});

test('a large load has no slot while it waits for its rate limit', async (t) => {
  const paid = Promise.withResolvers<true>();
  const served: string[] = [];
  const { open } = opening({
    mayPass: ({ minionId, elements }) =>
      elements > 0 && minionId !== 'web5' ? paid.promise : true,
    serve: async ({ checked: { id = '' } }) => void served.push(id),
  });
  const waiting = five.slice(0, 4).map((id) => open(returnOf(id)));
  await open(returnOf('web5'));
  t.deepEqual(served, ['web5']);
  paid.resolve(true);
  await Promise.all(waiting);
  t.deepEqual(served.toSorted(), five);
});

test('only large returns keep their slot until they are handled', async (t) => {
  const { open } = opening({
    serve: async ({ checked: { id } }) => (id === 'web5' ? 'served' : never),
  });
  for (const id of five.slice(0, 4)) void open(returnOf(id, 'few'));
  t.is(await open(returnOf('web5')), 'served');
});

test('a large return that fails releases its slot', async (t) => {
  const { open } = opening({
    serve: async () => {
      throw new Error('not stored');
    },
  });
  await t.throwsAsync(open(returnOf('web1')), { message: 'not stored' });
  await t.throwsAsync(open(returnOf('web1')), { message: 'not stored' });
});

test('a large load is refused if too many of its minion wait for a slot', async (t) => {
  const served = Promise.withResolvers<void>();
  const { total, perOwner } = requestLimits.largeLoads;
  const slots = new FairSlots(requestLimits.largeLoads, {
    total,
    perOwner,
    waiting: { perOwner: 2, total: 100 },
  });
  const { open } = opening({ slots, serve: () => served.promise });
  const asked = five.slice(0, 4).map(() => open(returnOf('web1')));
  await t.throwsAsync(Promise.race(asked), dropped);
  served.resolve();
  const refused = (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected');
  t.is(refused.length, 1);
});

test('large loads of one address that wait for a slot have at most 1 GiB', async (t) => {
  const { perOwner = 0 } = requestLimits.waitingLargeLoads;
  const served = Promise.withResolvers<void>();
  const slots = new FairSlots(requestLimits.largeLoads);
  const { open } = opening({ slots, serve: () => served.promise });
  for (const id of five.slice(0, 4)) slots.enter(id);
  const load = sealed({ cmd: 'returns', data: Buffer.alloc(15 * megabyte) }, { version: 2 });
  const count = Math.floor(perOwner / load.load.length);
  const outcomes = Array.from({ length: count + 1 }, () => open(load));
  await t.throwsAsync(Promise.race(outcomes), dropped);
  t.is(slots.waiting, count);
});

test('a large load that has waited for a slot for over a minute is neither decrypted nor counted as expired', async (t) => {
  const clock = { now: 0 };
  const slots = new FairSlots(requestLimits.largeLoads);
  const { open, loads, expired } = opening({ slots, now: () => clock.now });
  const held = five.slice(0, 4).map((id) => slots.enter(id));
  const inTime = open(returnOf('web6'));
  await until('it waits', () => slots.waiting === 1);
  clock.now += 60_000;
  held[0]?.leave();
  await inTime;
  t.is(loads.length, 2);
  slots.enter('web1');
  const late = open(returnOf('web6'));
  await until('it waits', () => slots.waiting === 1);
  clock.now += 60_001;
  held[1]?.leave();
  await t.throwsAsync(late, dropped);
  t.is(loads.length, 2);
  t.deepEqual(expired, []);
});

/** Starts a master with a session key for each of these minions. */
async function startFleetMaster(
  t: ExecutionContext,
  ids: readonly string[],
  store: Store,
): Promise<VectorMaster> {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const { publicPem } = pem('minion');
  const stored = ids.map((id): StoredKey => ({ directory: 'minions', id, publicPem }));
  await layOutVectorMaster(config, store, stored);
  const seal = await openSeal(config.stateDir);
  const value = seal.seal(Buffer.from(`${RECORDED_AT} ${keys.session}`));
  await store.write(ids.map((id) => ({ op: 'put', key: ['secrets', 'sessions', id], value })));
  return startVectorMaster(t, { directory, store });
}

/**
 * Lets writes of large returns wait until `mayStore` resolves, and then for 500 turns of the event
 * loop. In this time, all other large returns would be unpacked.
 */
function slowStore(mayStore: Promise<unknown>) {
  const store = createMemoryStore({ now: () => RECORDED_AT });
  const writes = { now: 0, most: 0 };
  const started = Promise.withResolvers<void>();
  const write: Store['write'] = async (operations) => {
    const isLarge = operations.some(
      (one) => one.op === 'put' && one.key[0] === 'returns' && one.value.length > megabyte,
    );
    if (!isLarge) return store.write(operations);
    writes.now += 1;
    writes.most = Math.max(writes.most, writes.now);
    started.resolve();
    await mayStore;
    for (let turn = 0; turn < 500; turn += 1) await new Promise(setImmediate);
    writes.now -= 1;
    return store.write(operations);
  };
  const slow: Store = new Proxy(store, {
    get: (_, name) => {
      if (name === 'write') return write;
      const value: unknown = Reflect.get(store, name);
      return typeof value === 'function' ? value.bind(store) : value;
    },
  });
  return { store: slow, writes, started: started.promise };
}

test('four large returns are in memory at a time, a small one is stored meanwhile, and none is lost', async (t) => {
  const ids = Array.from({ length: 21 }, (_, index) => `web${index}`);
  const small = Promise.withResolvers<void>();
  const { store, writes, started } = slowStore(small.promise);
  const master = await startFleetMaster(t, ids, store);
  const jid = '20231114221320000001';
  for await (const _ of master.master.jobs.run({
    tgt: ids,
    tgtType: 'list',
    fun: 'test.echo',
    jid,
  }))
    break;
  const returned = async (id: string, index: number, length: number): Promise<unknown> => {
    const nonce = freshNonce();
    const load = { jid, id, nonce, fun: 'test.echo', return: 'x'.repeat(length) };
    const request = altered(result, { envelope: { id }, load });
    return openReply(result, await master.ask(request, `192.0.2.${index + 1}`), nonce);
  };
  const large = ids.slice(1).map((id, index) => returned(id, index, 1.1 * megabyte));
  await started;
  t.is(await returned('web0', 30, 1000), null);
  small.resolve();
  t.deepEqual(
    await Promise.all(large),
    large.map(() => null),
  );
  t.is(writes.most, 4);
  const report = await master.master.jobs.show(jid);
  t.is(report.returns.length, ids.length);
});

test.serial(
  'a large reply is encrypted in slices, and a small reply does not wait for it',
  async (t) => {
    const names = Array.from({ length: 100_000 }, (_, at) => `states/app/files/${at}.conf`);
    const large = (reply: () => Reply): RequestType =>
      defineRequestType({
        kind: 'read',
        needsToken: false,
        rate: 'requests',
        load: (load: WireMap) => load,
        handle: reply,
      });
    const requests = {
      names: large(() => send(names)),
      pieces: large(() => ({ kind: 'packed', pieces: [packWire(names)] })),
    };
    const master = await startVectorMaster(t, {
      extensions: [{ name: 'large', open: async () => ({ requests }) }],
    });
    await ask(master, { cmd: 'nosuch' });
    for (const cmd of ['names', 'pieces']) {
      const order: string[] = [];
      const nonce = freshNonce();
      const slices = await slicesOf(async () => {
        const listed = master.ask(altered(event, { load: { cmd, nonce } })).then((reply) => {
          order.push('large');
          t.deepEqual(openReply(event, reply, nonce), names);
        });
        const small = ask(master, { cmd: 'nosuch' }).then(() => order.push('small'));
        await Promise.all([listed, small]);
      });
      t.deepEqual(order, ['small', 'large']);
      t.true(slices.length >= 4, `${cmd}: ${slices}`);
    }
  },
);

test('a return of 130,000 elements is stored, and an event of so many is refused and logged', async (t) => {
  const master = await startVectorMaster(t);
  const value = keyed(130_000);
  const told = await returned(t, master, { jid: 'req', return: value });
  t.is(told, 1);
  await ask(master, { data: keyed(30_000) }).catch(() => {});
  t.is((await master.counters()).ERR_PAYLOAD_LIMIT, 1);
});

async function returned(t: ExecutionContext, master: VectorMaster, load: WireMap): Promise<number> {
  const nonce = freshNonce();
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(altered(result, { load: { ...load, nonce } }));
    t.is(openReply(result, reply, nonce), null);
  });
  return events.filter(({ tag }) => tag.includes('/ret/')).length;
}

test('an update of the mine with too many functions is refused', async (t) => {
  const master = await startVectorMaster(t);
  t.true(await ask(master, { cmd: '_mine', data: keyed(1000) }));
  t.false(await ask(master, { cmd: '_mine', data: keyed(1001) }));
  t.is((await master.counters())['mine-functions'], 1);
});

test('the encrypted load of an envelope is not copied, even if it is text', (t) => {
  const bytes = packWire({ enc: 'aes', load: 'x'.repeat(100_000), version: 2 });
  const decoded = decodeEnvelope(bytes);
  t.true(decoded.ok && decoded.envelope.enc === 'aes');
  if (!decoded.ok || decoded.envelope.enc !== 'aes') return;
  t.is(decoded.envelope.load.buffer, bytes.buffer);
  t.is(decoded.envelope.load.length, 100_000);
});

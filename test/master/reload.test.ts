/** Effects of a changed configuration on a running master. */

import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { deny, PolicyError } from '#acl';
import type { LogLevel } from '#config';
import { type MasterOptions, resolveMasterConfig } from '#config';
import type { MasterEvent } from '#master';
import { createLogger, createSilentLogger, MasterError, type TargetPlan } from '#master';
import { EventBus } from '#master/events/event-bus.ts';
import { EventRing } from '#master/events/event-ring.ts';
import { type BusApi, createBusApi } from '#master/events/events-api.ts';
import { unpackWire } from '#minion-protocol';
import { createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { connectMinion, otherKey } from '../helpers/connected-minion.ts';
import { until, waitMs } from '../helpers/deadline.ts';
import {
  directories,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { base64, cases, keys, text, vectorFile } from '../helpers/vectors.ts';

interface Running extends VectorMaster {
  /** Reloads with changed options. The other options are those of the start. */
  reload(options: Partial<MasterOptions>): Promise<unknown>;
}

async function start(t: ExecutionContext, options: VectorMasterOptions = {}): Promise<Running> {
  const running = await startVectorMaster(t, options);
  const { directory, master } = running;
  const base = { ...directories(directory), ...options.config };
  return {
    ...running,
    reload: (more) => master.reload(resolveMasterConfig({ ...base, ...more })),
  };
}

function signIn(name: string): Buffer {
  const vector = cases(vectorFile('auth'), 'cases').find((one) => text(one.name) === name);
  return base64(vector?.request_b64);
}

async function stateOf({ master }: VectorMaster, id: string = keys.minionId): Promise<unknown> {
  return (await master.keys.list()).find((key) => key.id === id)?.state;
}

test('auto_accept decides the next sign-in', async (t) => {
  const running = await start(t, { keys: [] });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'pending');
  await running.reload({ autoAccept: true });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'accepted');
});

test('another autosign_file is read before the reload ends', async (t) => {
  const running = await start(t, { keys: [] });
  const autosignFile = path.join(running.directory, 'autosign.conf');
  writeFileSync(autosignFile, `${keys.minionId}\n`, { mode: 0o600 });
  await running.reload({ autosignFile });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'accepted');
});

test('open_mode accepts another key for a known id', async (t) => {
  const running = await start(t);
  const other = signIn('v0 accepted id, different key (denied)');
  await running.reload({ openMode: true, confirmOpenMode: true, authEvents: false });
  const events = await running.eventsDuring(() => running.ask(other));
  t.is(await stateOf(running), 'accepted');
  t.false(events.some(({ tag }) => tag === 'salt/auth'));
});

test('max_minions counts minions that are already connected', async (t) => {
  const running = await start(t, {
    config: { requestServerTtl: 0 },
    keys: [otherKey('a'), otherKey('b')],
  });
  await connectMinion(t, running, 'a');
  await connectMinion(t, running, 'b');
  await running.reload({ maxMinions: 1 });
  const reply = await running.ask(signIn('v0 pending, new key'));
  t.deepEqual(unpackWire(reply), { enc: 'clear', load: { ret: 'full' } });
});

test('pending_keys limits keys from the reload on', async (t) => {
  const running = await start(t, { keys: [{ ...otherKey('a'), directory: 'minions_pre' }] });
  await running.reload({ limits: { pendingKeys: 1 } });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), undefined);
  await running.reload({ limits: { pendingKeys: 0 } });
  await running.ask(signIn('v0 pending, new key'));
  t.is(await stateOf(running), 'pending');
});

test('nodegroups have their new meaning', async (t) => {
  const running = await start(t);
  const plan = (): Promise<TargetPlan> =>
    running.master.jobs.plan({ tgt: 'mine', tgtType: 'nodegroup' });
  await t.throwsAsync(plan, { code: 'ERR_NODEGROUP_UNKNOWN' });
  await running.reload({ nodegroups: { mine: `L@${keys.minionId}` } });
  t.is((await plan()).minions.length, 1);
});

test('the rules are replaced as a whole, or not at all', async (t) => {
  const running = await start(t, { config: { acl: { signals: [{ tag: 'my/*', minions: '*' }] } } });
  const event = recorded('minion_event', 'start event v3');
  const isFired = async (tag: string): Promise<boolean> => {
    const load = { nonce: freshNonce(), tag };
    return (await running.eventsDuring(() => running.ask(altered(event, { load })))).length === 1;
  };
  const rule = { subject: { nodegroup: 'mine' }, action: 'signal' } as const;
  const rules = [deny('not that', { ...rule, resource: { tag: 'my/tag' } })];
  const nodegroups = { mine: `L@${keys.minionId}` };
  t.true(await isFired('my/tag'));
  const broken = {
    ...resolveMasterConfig(directories(running.directory)),
    acl: { ...resolveMasterConfig().acl, rules },
  };
  await t.throwsAsync(running.master.reload(broken), { instanceOf: PolicyError });
  t.true(await isFired('my/tag'));
  await running.reload({ acl: { signals: [{ tag: 'my/*', minions: '*' }], rules }, nodegroups });
  t.false(await isFired('my/tag'));
  t.true(await isFired('my/other'));
});

test('the limits of events apply to the next event', async (t) => {
  const running = await start(t);
  const event = recorded('minion_event', 'start event v3');
  const fire = (): Promise<Buffer> =>
    running.ask(altered(event, { load: { nonce: freshNonce() } }));
  t.is((await running.eventsDuring(fire)).length, 1);
  await running.reload({ limits: { eventBytes: 1024, eventsPerSecond: 1, burst: 1 } });
  await fire();
  await fire();
  t.is((await running.counters())['event-rate'], 1);
  await running.ask(altered(event, { load: { nonce: freshNonce(), data: 'x'.repeat(1024) } }));
  t.is((await running.counters())['event-bytes'], 1);
});

test('allow_minion_key_revoke applies to the next request', async (t) => {
  const running = await start(t);
  const revocation = recorded('aes_functions', 'revoke_auth disabled v3');
  const request = (): Buffer => altered(revocation, { load: { nonce: freshNonce() } });
  await running.ask(request());
  t.is(await stateOf(running), 'accepted');
  await running.reload({ allowMinionKeyRevoke: true });
  // The connection ends with the key, so there is no reply.
  const minion = running.dial(keys.minionId);
  const unanswered = t.throwsAsync(minion.request(request(), waitMs), { code: 'ERR_CLOSED' });
  const file = path.join(running.directory, 'pki', 'minions', keys.minionId);
  await until('the key to go', () => !existsSync(file));
  await minion.close();
  await unanswered;
});

test('a stopped master cannot be reloaded', async (t) => {
  const config = resolveMasterConfig();
  const master = createMaster({ config });
  await t.throwsAsync(master.reload(config), {
    instanceOf: MasterError,
    code: 'ERR_MASTER_STOPPED',
  });
});

/** Returns the output of a logger with this level, one object per line. */
function logged(level: LogLevel, write: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  write(createLogger(level, stream));
  return text;
}

const lowest: readonly (readonly [LogLevel, string])[] = [
  ['quiet', 'silent'],
  ['critical', 'fatal'],
  ['error', 'error'],
  ['warning', 'warn'],
  ['info', 'info'],
  ['profile', 'info'],
  ['debug', 'debug'],
  ['trace', 'trace'],
  ['garbage', 'trace'],
  ['all', 'trace'],
];

for (const [level, expected] of lowest) {
  test(`Salt's level ${level} is pino's ${expected}`, (t) => {
    t.is(createLogger(level).level, expected);
  });
}

test('secrets are redacted everywhere', (t) => {
  const text = logged('info', (logger) => {
    logger.info({ token: 'planted-1', load: { arg: ['planted-2'], tok: 'planted-3' } }, 'x');
    logger.info({ config: { keyPass: 'planted-4' }, pillar: { db: 'planted-5' } }, 'x');
  });
  t.notRegex(text, /planted/);
  t.regex(text, /redacted/);
});

// Stored events, after which a reader can continue.

const missed = 'saltbridge/events/missed';
const usual = { entries: 1000, bytes: 1_048_576 };

interface Kept {
  readonly ring: EventRing;
  readonly bus: EventBus;
  readonly api: BusApi;
  readonly store: Store;
}

async function open(run: string, store: Store = createMemoryStore(), size = usual): Promise<Kept> {
  const parts = { store, size, now: () => 0, log: createSilentLogger(), run };
  const ring = await EventRing.open(parts);
  const bus = new EventBus({ maxEventBytes: 0, ring });
  return { ring, bus, api: createBusApi(bus, ring), store };
}

/**
 * Returns the tags that a returning reader receives. The last event is fired after the reader has
 * returned.
 */
async function tagsAfter({ api, bus }: Kept, after: string, match?: string[]): Promise<string[]> {
  const request = { after, ...(match === undefined ? {} : { match }) };
  const events = await api.subscribe(request);
  bus.fire('end', {});
  const tags: string[] = [];
  for await (const { tag } of events) {
    if (tag === 'end') break;
    tags.push(tag);
  }
  return tags;
}

/** Returns the ids of events, as a reader of all events receives them. */
async function idsOf({ api, bus }: Kept, tags: readonly string[]): Promise<string[]> {
  const events = await api.subscribe();
  for (const tag of tags) bus.fire(tag, {});
  const ids: string[] = [];
  for await (const { id } of events) {
    ids.push(String(id));
    if (ids.length === tags.length) break;
  }
  return ids;
}

const first = 'aaaaaaaa';
const second = 'bbbbbbbb';

test('a reader that reconnects receives the missed events once, and then the new ones', async (t) => {
  const kept = await open(first);
  const [a = ''] = await idsOf(kept, ['a', 'b', 'c']);
  t.deepEqual(await tagsAfter(kept, a), ['b', 'c']);
  t.deepEqual(await tagsAfter(kept, a, ['c', 'en*']), ['c']);
});

test('events outlive the process, with their data and ids', async (t) => {
  const before = await open(first);
  const [a = '', b = ''] = await idsOf(before, ['a']);
  t.is(b, '');
  before.bus.fire('b', { big: 2n ** 60n, bytes: new Uint8Array([0, 255]), list: [null, 1.5] });
  await before.ring.close();
  const after = await open(second, before.store);
  const events: MasterEvent[] = [];
  for await (const batch of after.ring.after(a)) events.push(...batch);
  t.like(events[0], { tag: 'b', id: `${first}-2` });
  t.is(events[0]?.data.big, 2n ** 60n);
  t.deepEqual(events[0]?.data.bytes, new Uint8Array([0, 255]));
  t.deepEqual(events[0]?.data.list, [null, 1.5]);
  after.bus.fire('c', {});
  t.deepEqual(await tagsAfter(after, a), ['b', 'c']);
});

test('after an unclean end, readers are notified that events may be missing', async (t) => {
  const before = await open(first);
  const [a = ''] = await idsOf(before, ['a', 'b']);
  await before.ring.flush();
  const after = await open(second, before.store);
  after.bus.fire('c', {});
  t.deepEqual(await tagsAfter(after, a), ['b', missed, 'c']);
  t.deepEqual(await tagsAfter(after, `${first}-9`), [missed, 'c']);
});

test('events older than the ring are reported as missing, before all that are left', async (t) => {
  const kept = await open(first, createMemoryStore(), { ...usual, entries: 32 });
  const tags = Array.from({ length: 100 }, (_, index) => `t${index}`);
  const [a = ''] = await idsOf(kept, tags);
  await kept.ring.flush();
  const told = await tagsAfter(kept, a);
  t.is(told[0], missed);
  t.deepEqual(told.slice(1), tags.slice(-(told.length - 1)));
  t.true(told.length > 20 && told.length <= 34);
  const records = await kept.store.stream('events').read();
  t.true(records.length <= 33);
});

test('its bytes are bounded as well', async (t) => {
  const kept = await open(first, createMemoryStore(), { entries: 1000, bytes: 65_536 });
  for (let index = 0; index < 200; index += 1) {
    kept.bus.fire('t', { text: 'x'.repeat(1000) });
    await kept.ring.flush();
  }
  const records = await kept.store.stream('events').read();
  const bytes = records.reduce((sum, { value }) => sum + value.byteLength, 0);
  t.true(records.length > 10);
  t.true(bytes <= 65_536);
});

test('a reader with an unknown id gets all events, and with an invalid id only new ones', async (t) => {
  const kept = await open(first);
  await idsOf(kept, ['a', 'b']);
  t.deepEqual(await tagsAfter(kept, 'cccccccc-1'), [missed, 'a', 'b']);
  t.deepEqual(await tagsAfter(kept, 'x'), [missed]);
  t.deepEqual(await tagsAfter(kept, `${first}-99`), [missed]);
});

test('without storage, subscribers still receive every event', async (t) => {
  const store = createMemoryStore();
  const failing: Store = {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    keys: (prefix) => store.keys(prefix),
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
    write: async (steps) => {
      if (steps.some(({ op }) => op === 'append')) throw new Error('full');
      return store.write(steps);
    },
  };
  const kept = await open(first, failing);
  const [a = ''] = await idsOf(kept, ['a', 'b']);
  t.is(a, `${first}-1`);
  t.deepEqual(await tagsAfter(kept, a), [missed]);
});

test('without a ring, events have no id, and a request for past events reports that they are gone', async (t) => {
  const bus = new EventBus({ maxEventBytes: 0 });
  const events = await createBusApi(bus).subscribe({ after: `${first}-1` });
  bus.fire('now', {});
  const told: MasterEvent[] = [];
  for await (const event of events) if (told.push(event) === 2) break;
  t.deepEqual(
    told.map(({ tag, id }) => [tag, id]),
    [
      [missed, undefined],
      ['now', undefined],
    ],
  );
});

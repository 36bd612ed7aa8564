import test from 'ava';
import { createSeal } from '../../../master/auth/session-keys.ts';
import {
  KnownFacts,
  type KnownFactsOptions,
  SharedNames,
} from '../../../master/jobs/minion-facts.ts';
import type { WireMap } from '../../../minion-protocol/index.ts';
import { createMemoryStore, type Store } from '../../../store/index.ts';

const seal = createSeal(new Uint8Array(32).fill(7));
const grains: WireMap = { os: 'Debian', nested: { a: ['x', 1] } };
const pillar: WireMap = { password: 'not to be seen' };

function open(store: Store, options: Partial<KnownFactsOptions> = {}): Promise<KnownFacts> {
  const all = { store, seal, isOn: true, maxBytes: 1000, hasKey: () => true, ...options };
  return KnownFacts.open(all);
}

async function stored(store: Store): Promise<Buffer[]> {
  const values: Buffer[] = [];
  for await (const { value } of store.list(['minion-data'])) values.push(Buffer.from(value));
  return values;
}

test('facts are there after a restart', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const known = (await open(store)).of('web1');
  t.deepEqual(known.grains?.get('nested'), grains.nested);
  t.deepEqual({ ...known.pillar?.whole() }, pillar);
  t.is(known.grains?.get('nope'), undefined);
});

test('of a minion that sent nothing, nothing is known', async (t) => {
  const known = (await open(createMemoryStore())).of('web1');
  t.deepEqual(known, { grains: undefined, pillar: undefined });
});

test('pillar lies sealed in the store', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const [record] = await stored(store);
  t.true(record?.includes('Debian'));
  t.false(record?.includes('password'));
  t.false(record?.includes('not to be seen'));
});

test('the same facts again are not written again', async (t) => {
  const store = createMemoryStore();
  const facts = await open(store);
  await facts.keep([{ id: 'web1', grains, pillar }]);
  const [before] = await stored(store);
  await facts.keep([{ id: 'web1', grains: { ...grains }, pillar }]);
  t.deepEqual(await stored(store), [before]);
  await facts.keep([{ id: 'web1', grains: { ...grains, os: 'RedHat' }, pillar }]);
  t.notDeepEqual(await stored(store), [before]);
  t.is(facts.of('web1').grains?.get('os'), 'RedHat');
});

test('facts that are too big are not known, whatever was known before', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains, pillar }]);
  await facts.keep([{ id: 'web1', grains, pillar: { big: 'x'.repeat(1000) } }]);
  t.is(facts.of('web1').grains?.get('os'), 'Debian');
  t.is(facts.of('web1').pillar, undefined);
});

test('a forgotten minion stays forgotten', async (t) => {
  const store = createMemoryStore();
  const facts = await open(store);
  await facts.keep([{ id: 'web1', grains, pillar }]);
  await facts.forget('web1');
  t.is(facts.of('web1').grains, undefined);
  t.is((await open(store)).size, 0);
});

test('facts of ids without a key are neither kept nor read again', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const facts = await open(store, { hasKey: () => false });
  t.is(facts.size, 0);
  t.deepEqual(await stored(store), []);
  await facts.keep([{ id: 'web1', grains, pillar }]);
  t.deepEqual(await stored(store), []);
});

test('without the cache nothing is kept', async (t) => {
  const store = createMemoryStore();
  const facts = await open(store, { isOn: false });
  await facts.keep([{ id: 'web1', grains, pillar }]);
  t.is(facts.of('web1').grains, undefined);
  t.deepEqual(await stored(store), []);
});

test('a grain named like what objects inherit is an ordinary one', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains: JSON.parse('{"__proto__": "x"}'), pillar }]);
  t.is(facts.of('web1').grains?.get('__proto__'), 'x');
  t.is(facts.of('web1').grains?.get('constructor'), undefined);
});

test('names that minions make up are not kept beyond a bound', (t) => {
  const names = new SharedNames(2);
  t.deepEqual(
    ['a', 'b', 'c', 'a'].map((name) => names.share(name)),
    ['a', 'b', 'c', 'a'],
  );
  t.is(names.size, 2);
});

test('minions with the same names share one list, up to a bound', (t) => {
  const names = new SharedNames(1000, 1);
  const first = names.shareAll(['os', 'id']);
  t.is(names.shareAll(['os', 'id']), first);
  t.deepEqual(names.shareAll(['id', 'os']), ['id', 'os']);
  t.not(names.shareAll(['id', 'os']), names.shareAll(['id', 'os']));
  const long = ['x'.repeat(10_000)];
  const others = new SharedNames();
  t.not(others.shareAll(long), others.shareAll(long));
});

test('rights go by what grains have no part in, also after a restart', async (t) => {
  const store = createMemoryStore();
  const proven = { tier: 'front' };
  await (await open(store)).keep([{ id: 'web1', grains, pillar: { tier: 'core' }, proven }]);
  const facts = await open(store);
  t.is(facts.of('web1').pillar?.get('tier'), 'core');
  t.is(facts.rightsOf('web1').pillar?.get('tier'), 'front');
  const [record] = await stored(store);
  t.false(record?.includes('front'));
  await facts.forgetPart('web1', 'pillar');
  t.is(facts.rightsOf('web1').pillar, undefined);
});

test('what grains have no part in is nothing, rather than all, when it is too big', async (t) => {
  const facts = await open(createMemoryStore());
  const proven = { tier: 'x'.repeat(2000) };
  await facts.keep([{ id: 'web1', grains, pillar: { tier: 'core' }, proven }]);
  t.is(facts.rightsOf('web1').pillar?.get('tier'), undefined);
});

test('without anything said of it, rights go by the whole pillar', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains, pillar: { tier: 'core' } }]);
  t.is(facts.rightsOf('web1').pillar?.get('tier'), 'core');
  t.is(facts.rightsOf('web2').pillar, undefined);
});

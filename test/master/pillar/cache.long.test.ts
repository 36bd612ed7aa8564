/** The pillar cache and its limits. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { createSeal } from '#master';
import type { Seal } from '#master/auth/seal.ts';
import { packLocal, traverseFacts, type WireMap } from '#minion-protocol';
import type { OwnPillar, PillarConfig } from '#salt/pillar/own-pillar.ts';
import { PersistentPillarCache } from '#salt/pillar/persistent-pillars.ts';
import { PillarCache, type PillarKey } from '#salt/pillar/pillar-cache.ts';
import type { KeptPillar } from '#salt/pillar/pillar-records.ts';
import type { PillarMap } from '#salt/render/pillar-data.ts';
import { Reads } from '#salt/render/reads.ts';
import { createMemoryStore, type Entry, openEmbeddedStore, type Store } from '#store';
import { noSources, type OpenedPillar, openTree } from '../../helpers/pillar.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { planFiles } from '../reactor/plan-files.ts';

// Pillars after a restart: which are reused and which are compiled again, and that a stolen store
// reveals none.

const seal = createSeal(new Uint8Array(32).fill(7));
const prefix = ['pillar-cache'];

const tree = {
  'base/top.sls':
    "base:\n  '*': [a, 'x*']\n  group:\n    - match: nodegroup\n    - b\n    - ignore_missing: true\n",
  'base/a.sls':
    "{% from 'map.jinja' import n %}{% include 'part.jinja' ignore missing %}\na: {{ n }} {{ grains.role }} {{ salt['pillar.get']('e', '') }}\n",
  'base/map.jinja': '{% set n = 1 %}\n',
  'base/x1.sls': 'x1: 1\n',
};

interface Asked {
  readonly id?: string;
  readonly grains?: WireMap;
  readonly lower?: PillarMap;
}

async function ask(pillar: OwnPillar, { id = 'web1', grains = {}, lower }: Asked = {}) {
  const request = { saltenv: undefined, pillarenv: undefined };
  return pillar.provide({ ...request, id, grains: { role: 'db', ...grains, id } }, lower);
}

function openStored(
  t: ExecutionContext,
  files: Readonly<Record<string, string>> = tree,
  store: Store = createMemoryStore(),
): Promise<OpenedPillar> {
  return openTree(t, files, { nodegroups: { group: 'L@web1' } }, async () => ({
    persistent: await PersistentPillarCache.open({ store, seal, hasKey: () => true }),
    shared: { store, seal, hasKey: () => true },
  }));
}

test('after a restart the first pillar of unchanged files renders nothing', async (t) => {
  const { pillar, reopen } = await openStored(t);
  const before = await ask(pillar);
  t.like(before, { pillar: { a: '1 db', x1: 1 } });
  const again = await reopen();
  t.deepEqual(await ask(again), before);
  t.deepEqual(await ask(again, { grains: { other: 1 } }), before);
  t.is(again.made, 0);
  t.is(again.parsed, 0);
});

/** Changes while no master is running, and the resulting pillar. */
const changes: readonly (readonly [
  string,
  (
    | { readonly files: Readonly<Record<string, string>> }
    | { readonly config: Partial<PillarConfig> }
    | { readonly asked: Asked }
  ),
  WireMap,
])[] = [
  ['a file', { files: { 'x1.sls': 'x1: 2\n' } }, { x1: 2 }],
  ['a file that is imported', { files: { 'map.jinja': '{% set n = 2 %}\n' } }, { a: '2 db' }],
  ['a file that was looked for in vain', { files: { 'b.sls': 'b: 1\n' } }, { b: 1 }],
  ['an include that was looked for in vain', { files: { 'part.jinja': 'p: 1' } }, { p: 1 }],
  ['the names under a pattern', { files: { 'x2.sls': 'x2: 1\n' } }, { x2: 1 }],
  ['a grain that was looked at', { asked: { grains: { role: 'web' } } }, { a: '1 web' }],
  ['what external pillar gave', { asked: { lower: new Map([['e', 'ext']]) } }, { a: '1 db ext' }],
  ['an option', { config: { pillarIncludesOverrideSls: true } }, { x1: 1 }],
];

for (const [what, change, expected] of changes) {
  test(`after a restart a pillar is rendered again if ${what} changed meanwhile`, async (t) => {
    const { pillar, directory, reopen } = await openStored(t);
    await ask(pillar);
    const files = 'files' in change ? change.files : {};
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(path.join(directory, 'base', name), text);
    }
    const again = await reopen('config' in change ? change.config : {});
    const answer = await ask(again, 'asked' in change ? change.asked : {});
    t.like(answer.pillar, expected);
    t.is(again.made, 1);
  });
}

test('after a restart with new nodegroups pillars are rendered again', async (t) => {
  const files = { ...tree, 'base/b.sls': 'b: 1\n' };
  const { pillar, reopen } = await openStored(t, files);
  t.like(await ask(pillar), { pillar: { b: 1 } });
  const again = await reopen({ nodegroups: { group: 'L@web2' } });
  t.false('b' in (await ask(again)).pillar);
});

test('a pillar that depends on the time is not cached', async (t) => {
  const store = createMemoryStore();
  const files = { ...tree, 'base/x1.sls': "x1: {{ None | strftime('%Y') }}\n" };
  const { pillar } = await openStored(t, files, store);
  await ask(pillar);
  await written(store);
  t.deepEqual(await keysIn(store), []);
});

test('pillar values that do not depend on grains are the same after a restart', async (t) => {
  const files = { ...tree, 'base/x1.sls': "x1: {{ grains.get('tier', 'none') }}\n" };
  const { pillar, reopen } = await openStored(t, files);
  const before = await ask(pillar, { grains: { tier: 'core' } });
  const again = await reopen();
  const after = await ask(again, { grains: { tier: 'core' } });
  t.is(again.made, 0);
  t.deepEqual(after, before);
  t.like(after.proven, { x1: 'none' });
});

test('neither the files of the store nor a backup contain text of a pillar', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'store');
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  const canary = 'canary-in-the-pillar';
  const files = { ...tree, 'base/x1.sls': `x1: ${canary}\nsecret-name-${canary}: 1\n` };
  const { pillar } = await openStored(t, files, store);
  await ask(pillar, { grains: { role: canary } });
  await written(store);
  t.is((await keysIn(store)).length, 1);
  const backup = await store.backup(path.join(directory, 'backup.mdb'));
  await store.close();
  const all = readdirSync(directory).filter((name) => name.endsWith('.mdb'));
  t.true(all.length >= 2 && backup.bytes > 0);
  for (const name of all) t.false(readFileSync(path.join(directory, name)).includes(canary), name);
});

test('a record opens only with its seal key and under its id', async (t) => {
  const store = createMemoryStore();
  const cache = await PersistentPillarCache.open({ store, seal, hasKey: () => true });
  await cache.put('web1', [kept('secret')]);
  const [entry] = await entriesIn(store);
  await store.write([{ op: 'put', key: [...prefix, 'web2'], value: entry?.value ?? Buffer.of() }]);
  t.is((await (await reopened(store)).get('web1')).length, 1);
  t.deepEqual(await (await reopened(store)).get('web2'), []);
  const other = createSeal(new Uint8Array(32).fill(8));
  t.deepEqual(await (await reopened(store, other)).get('web1'), []);
});

test('records of ids without a key are removed at the start, and limits hold', async (t) => {
  const store = createMemoryStore();
  const cache = await PersistentPillarCache.open({
    store,
    seal,
    hasKey: () => true,
    maxBytes: 3000,
  });
  for (const id of ['a', 'b', 'c']) await cache.put(id, [kept(id.repeat(1000))]);
  t.deepEqual(await keysIn(store), ['b', 'c']);
  t.true(cache.bytes <= 3000);
  t.deepEqual(await cache.get('a'), []);
  await PersistentPillarCache.open({ store, seal, hasKey: (id) => id === 'c' });
  t.deepEqual(await keysIn(store), ['c']);
  const small = await PersistentPillarCache.open({
    store,
    seal,
    hasKey: () => true,
    maxRecordBytes: 500,
  });
  await small.put('c', [kept('c'.repeat(1000))]);
  t.deepEqual(await keysIn(store), []);
});

/** Waits until earlier writes are done. Writes are executed in the order of their calls. */
async function written(store: Store): Promise<void> {
  await store.write([{ op: 'delete', key: ['nothing'] }]);
}

function reopened(store: Store, its: Seal = seal): Promise<PersistentPillarCache> {
  return PersistentPillarCache.open({ store, seal: its, hasKey: () => true });
}

function kept(text: string): KeptPillar {
  const pillar = packLocal({ text });
  const env = { saltenv: undefined, pillarenv: undefined, lower: '', rules: '' };
  return { ...env, madeFrom: new Reads(noSources).madeFrom, pillar, proven: pillar };
}

async function entriesIn(store: Store): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of store.list(prefix)) entries.push(entry);
  return entries;
}

async function keysIn(store: Store): Promise<string[]> {
  return (await entriesIn(store)).map(({ key }) => key.at(-1) ?? '');
}

function key(id: string, pillarenv?: string): PillarKey {
  return { id, saltenv: undefined, pillarenv, lower: '', rules: '' };
}

/** Caches a pillar. It has no dependencies, so it stays valid. */
function keep(cache: PillarCache, its: PillarKey, text: string): Promise<void> {
  const pillar = { text };
  return cache.keep(its, { pillar, proven: pillar }, new Reads(noSources).madeFrom);
}

async function textOf(cache: PillarCache, its: PillarKey): Promise<unknown> {
  const found = await cache.find(its, {});
  return found && traverseFacts(found.pillar, ['text']);
}

test('the pillar that was not requested for the longest time is evicted first', async (t) => {
  const cache = new PillarCache({ sources: noSources, maxBytes: 3500 });
  for (const id of ['a', 'b']) await keep(cache, key(id), id.repeat(1000));
  t.is(await textOf(cache, key('a')), 'a'.repeat(1000));
  await keep(cache, key('c'), 'c'.repeat(1000));
  t.is(await textOf(cache, key('b')), undefined);
  t.is(await textOf(cache, key('a')), 'a'.repeat(1000));
  t.is(await textOf(cache, key('c')), 'c'.repeat(1000));
  t.true(cache.bytes <= 3500);
});

test('a minion cannot fill the cache by naming environments', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  for (let index = 0; index < 100; index += 1)
    await keep(cache, key('a', `env${index}`), 'x'.repeat(100));
  t.true(cache.bytes < 1500);
  t.is(await textOf(cache, key('a', 'env99')), 'x'.repeat(100));
  t.is(await textOf(cache, key('a', 'env0')), undefined);
});

test('a minion gets no cached pillar of another minion or environment', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  await keep(cache, key('a', 'dev'), 'secret');
  t.is(await textOf(cache, key('b', 'dev')), undefined);
  t.is(await textOf(cache, key('a')), undefined);
  t.is(await textOf(cache, key('a', 'dev')), 'secret');
});

test('a new pillar replaces the cached one, and its bytes', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  await keep(cache, key('a'), 'x'.repeat(1000));
  await keep(cache, key('a'), 'y');
  t.is(await textOf(cache, key('a')), 'y');
  t.true(cache.bytes < 600);
});

test('a pillar with more values than a peer may send is cached completely', async (t) => {
  const cache = new PillarCache({ sources: noSources });
  const list = Array.from({ length: 300_000 }, (_, index) => index);
  const pillar = { list };
  await cache.keep(key('a'), { pillar, proven: pillar }, new Reads(noSources).madeFrom);
  const found = await cache.find(key('a'), {});
  t.deepEqual(found && traverseFacts(found.pillar, ['list', '299999']), 299_999);
});

// A file loops until its limit. Other requests are answered meanwhile.

const loops = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}';

/** Returns the results that arrive before some work is done. */
async function answeredDuring(
  work: Promise<unknown>,
  ask: () => Promise<unknown>,
): Promise<number> {
  let isDone = false;
  const end = (): void => {
    isDone = true;
  };
  work.then(end, end);
  let count = 0;
  for (; !isDone; count += 1) {
    await ask();
    // This lets messages of other threads arrive.
    await new Promise(setImmediate);
  }
  return count;
}

test('while a pillar loops to its limit, others get theirs', async (t) => {
  const { pillar, configure } = await openTree(t, {
    'base/top.sls': "base:\n  'evil': [loops]\n  'good*': [fine]\n",
    'base/loops.sls': `\n${loops}\na: 1\n`,
    'base/fine.sls': 'a: {{ grains.id }}\n',
  });
  const { limits } = resolveMasterConfig({});
  configure({ limits: { ...limits, pillarSteps: Number.POSITIVE_INFINITY } });
  const ask = (id: string) =>
    pillar.provide({ id, grains: { id }, saltenv: undefined, pillarenv: undefined });
  await ask('good');
  const evil = ask('evil');
  let number = 0;
  const answered = await answeredDuring(evil, async () => {
    number += 1;
    const id = `good${number}`;
    t.like(await ask(id), { pillar: { a: id } });
  });
  t.true(answered > 2, `${answered} answered`);
  t.like((await evil).pillar, {
    _errors: ["Rendering SLS 'loops' failed. Please see master log for details."],
  });
  const before = pillar.made;
  const again = ask('evil');
  const stillAnswered = await answeredDuring(again, () => ask('good1'));
  t.true(stillAnswered > 2, `${stillAnswered} answered`);
  t.is(pillar.made, before + 1, 'what ended by the clock is not kept');
});

test('while a file of the reactor loops to its limit, other events are processed', async (t) => {
  const { directory, plan } = await planFiles(
    t,
    {
      'loops.sls': `${loops}`,
      'fine.sls': 'a:\n  local.test.ping: [{tgt: {{ data.id }}}]\n',
    },
    { steps: 3_000_000 },
  );
  const event = { tag: 'a/b', sender: 'web1', data: undefined, body: { id: 'web1' } };
  const evil = plan(path.join(directory, 'loops.sls'), event);
  const answered = await answeredDuring(evil, async () => {
    const { calls } = await plan(path.join(directory, 'fine.sls'), event);
    t.is(calls.length, 1);
  });
  t.true(answered > 2, `${answered} answered`);
  t.like(await evil, { calls: [], refused: [{ reason: 'render' }] });
});

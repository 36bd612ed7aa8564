import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test from 'ava';
import pino from 'pino';
import type { TargetPlan } from '#master';
import { createSeal, everyone, MasterError, SlowPatternRunner } from '#master';
import { takeOverFacts } from '#master/jobs/import-facts.ts';
import { KnownFacts, type KnownFactsOptions, SharedNames } from '#master/jobs/minion-facts.ts';
import { TargetResolver, type TargetResolverOptions } from '#master/jobs/targets.ts';
import { factsOf, type MinionFacts, type WireMap } from '#minion-protocol';
import { createMemoryStore, type Store } from '#store';
import {
  candidateOf,
  targetCases,
  unknownMinion,
  vectorMinions,
} from '../../helpers/target-vectors.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const unknown: MinionFacts = { grains: undefined, pillar: undefined };

/** Grains of web1 and web2. Nothing is known about new1. */
const grainsOf: Readonly<Record<string, WireMap>> = {
  web1: { os: 'Debian', roles: ['web', 'db'], name: 'aab' },
  web2: { os: 'RedHat', roles: ['web'], name: 'abb' },
};

function resolver(options: Partial<TargetResolverOptions> = {}): TargetResolver {
  return new TargetResolver({
    acceptedIds: () => ['new1', 'web1', 'web2'],
    isAccepted: (id) => ['new1', 'web1', 'web2'].includes(id),
    factsOf: (id) => {
      const grains = grainsOf[id];
      return grains === undefined ? unknown : { grains: factsOf(grains), pillar: factsOf({}) };
    },
    isDataCached: true,
    nodegroups: {},
    // The time limit is long, because the thread may be slow on a busy machine.
    slowPatterns: new SlowPatternRunner({ budgetMs: 30_000 }),
    ...options,
  });
}

const badTarget = { instanceOf: MasterError, code: 'ERR_BAD_TGT' };

test('a minion without known facts is a possible match, and is reported as such', async (t) => {
  const { minions, unknown } = await resolver().resolve({ tgt: 'os:Debian', tgtType: 'grain' });
  t.deepEqual(minions, ['new1', 'web1']);
  t.deepEqual(unknown, ['new1']);
});

test('a minion that matches by another condition does not count as unknown', async (t) => {
  const { minions, unknown } = await resolver().resolve({
    tgt: 'G@os:Debian or new*',
    tgtType: 'compound',
  });
  t.deepEqual(minions, ['new1', 'web1']);
  t.deepEqual(unknown, []);
});

for (const tgt of [
  'G@os:Debian',
  'not G@os:RedHat',
  '* and not G@os:RedHat',
  'not ( not G@os:Debian )',
]) {
  test(`for rights, ${tgt} does not match a minion without known facts`, async (t) => {
    const target = { tgt, tgtType: 'compound' };
    const { minions, unknown } = await resolver().resolve(target, { greedy: false });
    t.deepEqual(minions, ['web1']);
    t.deepEqual(unknown, []);
  });
}

test('without the minion data cache, a target by facts matches every accepted key', async (t) => {
  const targets = resolver({ factsOf: () => unknown, isDataCached: false });
  const all = ['new1', 'web1', 'web2'];
  t.deepEqual((await targets.resolve({ tgt: 'a:b', tgtType: 'grain' })).minions, all);
  const not = { tgt: 'not I@a:b', tgtType: 'compound' };
  t.deepEqual((await targets.resolve(not)).minions, all);
  const web = { tgt: 'web* and not G@os:x', tgtType: 'compound' };
  t.deepEqual((await targets.resolve(web)).minions, ['web1', 'web2']);
  const rights = await targets.resolve({ tgt: 'a:b', tgtType: 'grain' }, { greedy: false });
  t.deepEqual(rights.minions, []);
});

const nodegroups = { web: 'G@roles:web', list: ['web1', 'gone'], both: 'N@web and not N@list' };

test('a nodegroup is resolved and published as a compound expression', async (t) => {
  const targets = resolver({ nodegroups });
  const { target, minions } = await targets.resolve({ tgt: 'both', tgtType: 'nodegroup' });
  t.is(target.tgtType, 'compound');
  t.deepEqual(target.tgt, ['(', 'G@roles:web', ')', 'and', 'not', '(', 'L@web1,gone', ')']);
  t.deepEqual(minions, ['new1', 'web2']);
});

test('a nodegroup inside a compound expression is replaced, and other words are unchanged', async (t) => {
  const targets = resolver({ nodegroups });
  const inside = await targets.resolve({ tgt: 'web* and not N@list', tgtType: 'compound' });
  t.deepEqual(inside.target.tgt, ['web*', 'and', 'not', '(', 'L@web1,gone', ')']);
  t.deepEqual(inside.minions, ['web2']);
  const plain = await targets.resolve({ tgt: 'web* and  web1', tgtType: 'compound' });
  t.is(plain.target.tgt, 'web* and  web1');
});

test('a nodegroup that is not defined, or contains itself, is refused', async (t) => {
  const targets = resolver({ nodegroups: { a: 'N@b', b: 'N@a' } });
  const unknown = { instanceOf: MasterError, code: 'ERR_NODEGROUP_UNKNOWN' };
  await t.throwsAsync(targets.resolve({ tgt: 'nope', tgtType: 'nodegroup' }), unknown);
  const loop = { instanceOf: MasterError, code: 'ERR_NODEGROUP_LOOP', message: /a > b > a/ };
  await t.throwsAsync(targets.resolve({ tgt: 'a', tgtType: 'nodegroup' }), loop);
  await t.throwsAsync(targets.resolve({ tgt: 'N@a', tgtType: 'compound' }), loop);
  const compound = { tgt: 'web1 or N@nope', tgtType: 'compound' };
  t.throws(() => targets.requireNodegroups(compound), unknown);
  t.notThrows(() => targets.requireNodegroups({ ...compound, tgt: 'web1 or N@a' }));
});

test('names of a list without an accepted key are missing', async (t) => {
  const targets = resolver();
  const list = await targets.resolve({ tgt: 'web1,,gone,web1', tgtType: 'list' });
  t.deepEqual([list.minions, list.missing], [['web1'], ['gone']]);
  t.deepEqual(list.target.tgt, ['web1', 'gone']);
  const compound = await targets.resolve({ tgt: 'L@web1,gone and not L@old', tgtType: 'compound' });
  t.deepEqual([compound.minions, compound.missing], [['web1'], ['gone']]);
});

const refused: readonly (readonly [tgt: string | string[], tgtType: string, delimiter?: string])[] =
  [
    ['a', 'range'],
    ['a', 'Glob'],
    ['a', 'constructor'],
    [['a'], 'glob'],
    [['a'], 'nodegroup'],
    ['a:b', 'grain', ''],
    ['(', 'pcre'],
    ['os:(', 'grain_pcre'],
    ['E@( or web1', 'compound'],
    ['(?>a)', 'pcre'],
  ];

for (const [tgt, tgtType, delimiter] of refused) {
  test(`the target ${JSON.stringify([tgt, tgtType, delimiter])} is refused`, async (t) => {
    const request = { tgt, tgtType, ...(delimiter === undefined ? {} : { delimiter }) };
    await t.throwsAsync(resolver().resolve(request), badTarget);
  });
}

test('a broken compound expression matches no minion, and gives a reason', async (t) => {
  const { minions, problem } = await resolver().resolve({ tgt: 'web1 and', tgtType: 'compound' });
  t.deepEqual(minions, []);
  t.is(problem, 'a condition is missing at the end of the target');
});

test('lookaround and back-references are evaluated in a thread, on ids and on values', async (t) => {
  const targets = resolver();
  const meant = async (tgt: string, tgtType: string): Promise<readonly string[]> =>
    (await targets.resolve({ tgt, tgtType })).minions;
  t.deepEqual(await meant('(?!new).*', 'pcre'), ['web1', 'web2']);
  t.deepEqual(await meant('name:(\\w)\\1', 'grain_pcre'), ['new1', 'web1']);
  t.deepEqual(await meant('E@.*(?<!2)$ and not P@os:(?!deb)', 'compound'), ['web1']);
  t.deepEqual(await meant('not E@(?!web) and P@roles:(?=d)db', 'compound'), ['web1']);
});

test('an endless regular expression is refused, and the next one is answered', async (t) => {
  const id = 'a'.repeat(60);
  const targets = resolver({
    acceptedIds: () => [id],
    slowPatterns: new SlowPatternRunner({ budgetMs: 20 }),
  });
  const endless = targets.resolve({ tgt: '(?!b)(a+)+$(?<!a)', tgtType: 'pcre' });
  await t.throwsAsync(endless, { ...badTarget, message: /exceeds 20 ms/ });
  const patient = resolver({ acceptedIds: () => [id] });
  t.deepEqual((await patient.resolve({ tgt: '(?!b)a', tgtType: 'pcre' })).minions, [id]);
});

test('a result counts as in time if only the main thread reads it late', async (t) => {
  const runner = new SlowPatternRunner({ budgetMs: 100 });
  const questions = [{ source: '(?!new).*', flags: 'u', texts: ['web1'] }];
  // Starts the thread.
  await runner.run(questions, '');
  const late = await new Promise((resolve) => {
    // The timers are the next phase after this one.
    setImmediate(() => {
      resolve(runner.run(questions, ''));
      const end = performance.now() + 400;
      while (performance.now() < end);
    });
  });
  t.deepEqual(late, [[true]]);
});

test('targets with lookaround of one user do not delay those of another one', async (t) => {
  const targets = resolver();
  const ended: string[] = [];
  const resolve = async (name: string): Promise<void> => {
    const by = { who: { kind: 'user', name }, rule: 'all' } as const;
    try {
      await targets.resolve({ tgt: '(?!new).*', tgtType: 'pcre' }, { by });
      ended.push(name);
    } catch (error) {
      t.like(error, { code: 'ERR_BAD_TGT' });
      ended.push('rejected');
    }
  };
  await Promise.all([...Array.from({ length: 300 }, () => resolve('busy')), resolve('other')]);
  const answers = ended.filter((it) => it !== 'rejected');
  t.true(answers.indexOf('other') >= 0 && answers.indexOf('other') < 5);
  t.true(ended.includes('rejected'));
  t.true(answers.filter((it) => it === 'busy').length >= 256);
});

test('a plan gives the reason for each minion', async (t) => {
  const targets = resolver({ nodegroups });
  const reasons = async (tgt: string, tgtType: string): Promise<TargetPlan['minions']> =>
    (await targets.plan({ tgt, tgtType })).minions;
  t.deepEqual(await reasons('G@os:Debian or L@web1,web2,gone', 'compound'), [
    { id: 'web1', reason: 'matched', by: ['G@os:Debian', 'web1'] },
    { id: 'web2', reason: 'matched', by: ['web2'] },
    { id: 'new1', reason: 'facts-unknown' },
    { id: 'gone', reason: 'missing' },
  ]);
  t.deepEqual(await reasons('not G@os:RedHat', 'compound'), [
    { id: 'web1', reason: 'matched', by: ['not G@os:RedHat'] },
  ]);
  t.deepEqual(await reasons('web1', 'glob'), [{ id: 'web1', reason: 'matched', by: ['web1'] }]);
});

test('a plan shows the publication', async (t) => {
  const plan = await resolver({ nodegroups }).plan({ tgt: 'web', tgtType: 'nodegroup' });
  t.is(plan.tgtType, 'compound');
  t.deepEqual(plan.tgt, ['G@roles:web']);
});

test('ten thousand minions are asked for only the one grain each, once', async (t) => {
  const ids = Array.from({ length: 10_000 }, (_, index) => `m${index}`);
  const asked: string[] = [];
  const targets = resolver({
    acceptedIds: () => ids,
    factsOf: (id) => ({
      pillar: undefined,
      grains: {
        get: (key) => {
          asked.push(key);
          return id.endsWith('7') ? 'Debian' : 'RedHat';
        },
        whole: () => {
          throw new Error('all grains were unpacked');
        },
      },
    }),
  });
  const { minions } = await targets.resolve({ tgt: 'os:Debian', tgtType: 'grain' });
  t.is(minions.length, 1000);
  t.is(asked.length, 10_000);
  t.true(asked.every((key) => key === 'os'));
});

/** Resolves a target among web1 only, and counts which minions' data is read. */
async function withinWeb1(
  request: { readonly tgt: string; readonly tgtType?: string },
  showsPillar = false,
): Promise<{ readonly minions: readonly string[]; readonly asked: readonly string[] }> {
  const asked: string[] = [];
  const targets = resolver({
    factsOf: (id) => {
      asked.push(id);
      return { grains: factsOf({ os: 'Debian' }), pillar: factsOf({ role: 'web', also: id }) };
    },
  });
  const reach = {
    includes: (id: string) => id === 'web1',
    showsPillar: () => showsPillar,
    covers: () => false,
  };
  const { minions } = await targets.resolveWithin(request, reach);
  return { minions, asked };
}

test('a target is evaluated over a reach, and facts of other minions are not read', async (t) => {
  for (const [tgt, minions, asked] of [
    ['*', ['web1'], []],
    ['web2', [], []],
    ['G@os:Debian', ['web1'], ['web1']],
    ['not G@os:Debian', [], ['web1']],
    ['I@role:web', [], ['web1']],
    ['not I@role:web', [], ['web1']],
    ['web2 or I@also:web2', [], ['web1']],
  ] as const) {
    const found = await withinWeb1({ tgt, tgtType: 'compound' });
    t.deepEqual([found.minions, [...new Set(found.asked)]], [minions, asked], tgt);
  }
});

test('a reach may include pillar, which is compared by equality', async (t) => {
  for (const [tgt, minions] of [
    ['I@role:web', ['web1']],
    ['I@role:w*', []],
    ['J@role:w.*', []],
    ['not I@role:web', []],
  ] as const) {
    const found = await withinWeb1({ tgt, tgtType: 'compound' }, true);
    t.deepEqual(found.minions, minions, tgt);
  }
});

test('secrets depend on ids and pillar values that are independent of grains', async (t) => {
  const targets = resolver({
    factsOf: () => ({ grains: factsOf({ role: 'db' }), pillar: factsOf({ role: 'db' }) }),
    rightsOf: (id) => ({
      grains: factsOf({ role: 'db' }),
      pillar: factsOf(id === 'web1' ? { role: 'db' } : {}),
    }),
    nodegroups: { named: 'web1', claimed: 'G@role:db', both: 'N@named or N@claimed' },
  });
  const meant = async (tgt: string, tgtType = 'compound'): Promise<readonly string[]> =>
    (await targets.resolveProven({ tgt, tgtType }, everyone)).minions;
  t.deepEqual(await meant('web*'), ['web1', 'web2']);
  t.deepEqual(await meant('I@role:db'), ['web1']);
  t.deepEqual(await meant('role:db', 'pillar_exact'), ['web1']);
  t.deepEqual(await meant('named', 'nodegroup'), ['web1']);
  for (const [tgt, tgtType] of [
    ['G@role:db', 'compound'],
    ['web1 or not P@role:x', 'compound'],
    ['S@10.0.0.0/8', 'compound'],
    ['claimed', 'nodegroup'],
    ['N@both', 'compound'],
    ['role:db', 'grain'],
    ['role:d.*', 'grain_pcre'],
    ['10.0.0.1', 'ipcidr'],
    ['no address', 'ipcidr'],
  ] as const) {
    await t.throwsAsync(
      () => meant(tgt, tgtType),
      { ...badTarget, message: /a minion can set freely/ },
      tgt,
    );
  }
  for (const [tgt, tgtType] of [
    ['I@role:d*', 'compound'],
    ['J@role:db', 'compound'],
    ['role:d?', 'pillar'],
  ] as const) {
    await t.throwsAsync(
      () => meant(tgt, tgtType),
      { ...badTarget, message: /pattern on pillar/ },
      tgt,
    );
  }
  await t.throwsAsync(() => meant('web1 and'), badTarget);
});

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

test('facts survive a restart', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const known = (await open(store)).of('web1');
  t.deepEqual(known.grains?.get('nested'), grains.nested);
  t.deepEqual({ ...known.pillar?.whole() }, pillar);
  t.is(known.grains?.get('nope'), undefined);
});

test('a minion that sent nothing has no facts', async (t) => {
  const known = (await open(createMemoryStore())).of('web1');
  t.deepEqual(known, { grains: undefined, pillar: undefined });
});

test('pillar is sealed in the store', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const [record] = await stored(store);
  t.true(record?.includes('Debian'));
  t.false(record?.includes('password'));
  t.false(record?.includes('not to be seen'));
});

test('unchanged facts are not written again', async (t) => {
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

test('oversized facts are unknown, whatever was stored before', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains, pillar }]);
  await facts.keep([{ id: 'web1', grains, pillar: { big: 'x'.repeat(1000) } }]);
  t.is(facts.of('web1').grains?.get('os'), 'Debian');
  t.is(facts.of('web1').pillar, undefined);
});

test('a removed minion stays removed', async (t) => {
  const store = createMemoryStore();
  const facts = await open(store);
  await facts.keep([{ id: 'web1', grains, pillar }]);
  await facts.forget('web1');
  t.is(facts.of('web1').grains, undefined);
  t.is((await open(store)).size, 0);
});

test('facts of ids without a key are neither stored nor loaded', async (t) => {
  const store = createMemoryStore();
  await (await open(store)).keep([{ id: 'web1', grains, pillar }]);
  const facts = await open(store, { hasKey: () => false });
  t.is(facts.size, 0);
  t.deepEqual(await stored(store), []);
  await facts.keep([{ id: 'web1', grains, pillar }]);
  t.deepEqual(await stored(store), []);
});

test('without the cache no facts are stored', async (t) => {
  const store = createMemoryStore();
  const facts = await open(store, { isOn: false });
  await facts.keep([{ id: 'web1', grains, pillar }]);
  t.is(facts.of('web1').grains, undefined);
  t.deepEqual(await stored(store), []);
});

test('a grain with a name of Object.prototype is an ordinary grain', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains: JSON.parse('{"__proto__": "x"}'), pillar }]);
  t.is(facts.of('web1').grains?.get('__proto__'), 'x');
  t.is(facts.of('web1').grains?.get('constructor'), undefined);
});

test('the number of grain names that minions invent is limited', (t) => {
  const names = new SharedNames({ total: 2 });
  t.deepEqual(
    ['a', 'b', 'c', 'a'].map((name) => names.share(name)),
    ['a', 'b', 'c', 'a'],
  );
  t.is(names.size, 2);
});

test('names that a fleet uses are shared after a minion has invented many', (t) => {
  const names = new SharedNames({}, { total: 2 });
  for (const name of ['a', 'b', 'c', 'd']) names.shareAll([name]);
  t.is(names.shareAll(['os']), names.shareAll(['os']));
});

test('minions with the same names share one list, up to a limit', (t) => {
  const names = new SharedNames({}, { total: 1 });
  const first = names.shareAll(['os', 'id']);
  t.is(names.shareAll(['os', 'id']), first);
  t.deepEqual(names.shareAll(['id', 'os']), ['id', 'os']);
  t.not(names.shareAll(['os', 'id']), first);
  const long = ['x'.repeat(10_000)];
  const others = new SharedNames();
  t.not(others.shareAll(long), others.shareAll(long));
});

test('rights depend on values independent of grains, even after a restart', async (t) => {
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

test('pillar values proven to be independent of grains are empty if they are too large', async (t) => {
  const facts = await open(createMemoryStore());
  const proven = { tier: 'x'.repeat(2000) };
  await facts.keep([{ id: 'web1', grains, pillar: { tier: 'core' }, proven }]);
  t.is(facts.rightsOf('web1').pillar?.get('tier'), undefined);
});

test('without information about grains, rights depend on the whole pillar', async (t) => {
  const facts = await open(createMemoryStore());
  await facts.keep([{ id: 'web1', grains, pillar: { tier: 'core' } }]);
  t.is(facts.rightsOf('web1').pillar?.get('tier'), 'core');
  t.is(facts.rightsOf('web2').pillar, undefined);
});

const ids = [...vectorMinions.map(({ id }) => id), 'nodata'];

function recorded(id: string): Buffer {
  const file = `../../../test/fixtures/minion-data-cache/salt-3007.8-${id}.hex`;
  return Buffer.from(
    readFileSync(new URL(file, import.meta.url), 'ascii').replaceAll('\n', ''),
    'hex',
  );
}

function writeData(cachedir: string, id: string, bytes: Uint8Array): void {
  mkdirSync(path.join(cachedir, 'minions', id), { recursive: true });
  writeFileSync(path.join(cachedir, 'minions', id, 'data.p'), bytes);
}

interface TakenOver {
  readonly facts: KnownFacts;
  readonly warnings: readonly { readonly minion: string; readonly file: string }[];
}

async function takeOver(cachedir: string, maxBytes = 10_000): Promise<TakenOver> {
  const facts = await KnownFacts.open({
    store: createMemoryStore(),
    seal: createSeal(new Uint8Array(32)),
    isOn: true,
    maxBytes,
    hasKey: () => true,
  });
  const lines: string[] = [];
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(String(chunk));
      done();
    },
  });
  await takeOverFacts(facts, { cachedir, ids, maxBytes, log: pino(sink) });
  return { facts, warnings: lines.map((line) => JSON.parse(line)) };
}

test('the minion data of a real salt-master is imported', async (t) => {
  const cachedir = temporaryDirectory(t);
  for (const { id } of vectorMinions) writeData(cachedir, id, recorded(id));
  const { facts, warnings } = await takeOver(cachedir);
  for (const { id, grains, pillar } of vectorMinions) {
    t.deepEqual({ ...facts.of(id).grains?.whole() }, { ...grains }, id);
    t.deepEqual({ ...facts.of(id).pillar?.whole() }, { ...pillar }, id);
  }
  t.is(facts.of('nodata').grains, undefined);
  t.deepEqual(warnings, []);
});

test('unusable files are named, and the others are imported', async (t) => {
  const cachedir = temporaryDirectory(t);
  writeData(cachedir, 'web1', recorded('web1').subarray(0, 50));
  writeData(cachedir, 'web2', recorded('web2'));
  writeData(cachedir, 'nodata', Buffer.from('a378797a', 'hex'));
  mkdirSync(path.join(cachedir, 'minions', 'db.Example-1', 'data.p'), { recursive: true });
  const { facts, warnings } = await takeOver(cachedir);
  t.is(facts.size, 1);
  t.is(facts.of('web2').grains?.get('os'), 'RedHat');
  t.deepEqual(warnings.map(({ minion }) => minion).sort(), ['db.Example-1', 'nodata', 'web1']);
  t.true(warnings.every(({ file }) => file.endsWith('data.p')));
});

test('an oversized file is not read', async (t) => {
  const cachedir = temporaryDirectory(t);
  writeData(cachedir, 'web1', recorded('web1'));
  const { facts, warnings } = await takeOver(cachedir, 100);
  t.is(facts.size, 0);
  t.is(warnings.length, 1);
});

test('without such a cache nothing is imported', async (t) => {
  const { facts, warnings } = await takeOver(path.join(temporaryDirectory(t), 'nowhere'));
  t.is(facts.size, 0);
  t.deepEqual(warnings, []);
});

const facts = new Map<string, MinionFacts>(
  vectorMinions.map((minion) => [minion.id, candidateOf(minion).facts]),
);
const vectorResolver = new TargetResolver({
  acceptedIds: () => [...facts.keys(), unknownMinion].sort(),
  isAccepted: () => true,
  factsOf: (id) => facts.get(id) ?? { grains: undefined, pillar: undefined },
  isDataCached: true,
  nodegroups: {},
});

for (const { title, target, minions, missing } of targetCases) {
  test(`a job for ${title} waits for the same minions as a real master`, async (t) => {
    const resolved = await vectorResolver.resolve(target);
    t.deepEqual([...resolved.minions].sort(), minions);
    t.deepEqual([...resolved.missing].sort(), missing);
  });
}

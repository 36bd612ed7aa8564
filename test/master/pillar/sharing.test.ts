/** Pillars that minions with equal inputs share. */

import test, { type ExecutionContext } from 'ava';
import { createSeal } from '#master';
import type { WireMap } from '#minion-protocol';
import { saltLimits } from '#salt/limits.ts';
import type { Assignment } from '#salt/pillar/compile-pillar.ts';
import { OneAtATime } from '#salt/pillar/one-at-a-time.ts';
import type { OwnPillar } from '#salt/pillar/own-pillar.ts';
import { PillarAssignments, sizeOfAssignments } from '#salt/pillar/pillar-assignments.ts';
import { type KeptResult, SharedResults } from '#salt/pillar/shared-results.ts';
import { GrainReads } from '#salt/render/grains.ts';
import type { PillarAnswer } from '#salt/render/pillar-source.ts';
import { createMemoryStore } from '#store';
import { layOut } from '../../helpers/file-tree.ts';
import { noSources, openTree } from '../../helpers/pillar.ts';

function ask(pillar: OwnPillar, id: string, grains: WireMap = {}): Promise<PillarAnswer> {
  return pillar.provide({
    id,
    grains: { ...grains, id },
    saltenv: undefined,
    pillarenv: undefined,
  });
}

const standard = {
  'base/top.sls': "base:\n  '*': [common]\n  'role:web':\n    - match: grain\n    - web\n",
  'base/common.sls':
    'name: {{ grains.id }}\nfqdn: "{{ grains.fqdn }}"\naddress: {{ grains.ipv4[0] }}\nrole: {{ grains.role }}\n',
  'base/web.sls': 'web: {{ grains.os }} on {{ opts.id }}\n',
};

function grainsOf(index: number): WireMap {
  const role = index % 2 === 0 ? 'web' : 'db';
  const os = ['Debian', 'RedHat', 'Suse'][index % 3] ?? '';
  return { role, os, fqdn: `m${index}.example.org`, ipv4: [`10.0.${index >> 8}.${index & 255}`] };
}

test('minions with equal inputs share one rendering, and each gets its own values', async (t) => {
  const { pillar } = await openTree(t, standard);
  const answers = await Promise.all(
    Array.from({ length: 600 }, (_, index) => ask(pillar, `m${index}`, grainsOf(index))),
  );
  for (const [index, answer] of answers.entries()) {
    const { role, os, fqdn, ipv4 } = grainsOf(index);
    const web = role === 'web' ? { web: `${os} on m${index}` } : {};
    const address = Array.isArray(ipv4) ? ipv4[0] : undefined;
    t.deepEqual({ ...answer.pillar }, { name: `m${index}`, fqdn, address, role, ...web });
  }
  // Four, unless one takes seconds: then one more minion renders, so that the others do not wait.
  t.true(pillar.made < 20, String(pillar.made));
});

async function differ(t: ExecutionContext, text: string, more: WireMap = {}): Promise<OwnPillar> {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  '*': [a]\n",
    'base/a.sls': text,
  });
  for (const id of ['m1', 'm2']) await ask(pillar, id, { host: id, fqdn: `${id}.org`, ...more });
  return pillar;
}

const lookedAt: readonly string[] = [
  "a: {{ grains.id == 'm1' }}\n",
  'a: {{ grains.id | upper }}\n',
  'a: {{ grains.id[1] }}\n',
  "a: {{ 'x' if grains.id in ['m1'] else 'y' }}\n",
  'a: {% for c in grains.id %}{{ c }}{% endfor %}\n',
  "a: {{ salt['test.echo'](grains.id) }}\n",
  'a: {{ grains.id ~ 1 }}\n',
  '{{ grains.id }}: 1\n',
  'a: {{ grains | length }}\n',
  'a: {{ opts }}\n',
  "a: {{ salt['match.glob']('m1') }}\n",
  '{% set x %}{{ grains.id }}{% endset %}a: {{ x | length }}\n',
  '{% macro x() %}{{ grains.id }}{% endmacro %}a: {{ x() }}\n',
  'a: &{{ grains.id }} 1\n',
  'a: 1 # {{ grains.id }}\n',
  'a: !!set {? {{ grains.id }}, ? m1}\n',
];

for (const text of lookedAt) {
  test(`a pillar that reads a late grain is not shared: ${text.trim()}`, async (t) => {
    t.is((await differ(t, text)).made, 2);
  });
}

const printed: readonly string[] = [
  'a: {{ grains.id }}\n',
  "a: x-{{ grains['id'] }}-y\n",
  "a: [{{ grains.get('id') }}, '{{ salt['grains.get']('fqdn') }}', '{{ salt.grains.get('host') }}']\n",
  "a: {{ opts.id }}{{ opts['minion_id'] }}{{ salt['config.get']('id') }}\n",
  '{% set id = grains.id %}a: {{ id }}\n',
  "a: {{ grains.id if grains.os is defined else 'x' }}\n",
  '# for {{ grains.id }}\na: |\n  {{ grains.id }}\n  # {{ grains.fqdn }}\n',
  '#!jinja|json\n{"a": "{{ grains.id }}"}\n',
  "{% for x in [1, 2] %}\na{{ x }}: '{{ grains.id }}'\n{% endfor %}\n",
];

for (const text of printed) {
  test(`a pillar that only prints late grains is shared: ${text.trim()}`, async (t) => {
    t.is((await differ(t, text, { os: 'Debian' })).made, 1);
  });
}

const unfit: readonly (readonly [value: string, expected: unknown])[] = [
  ['12', 12],
  ['1.5', 1.5],
  ['yes', true],
  ['null', null],
  ['0x1f', 31],
  ['12:30', 750],
  ['a: b', undefined],
  ['a #b', 'a'],
  ['x\ny: 1', undefined],
  ['{{ 1 }}', undefined],
  ['"', undefined],
];

for (const [value, expected] of unfit) {
  test(`a value with a meaning in YAML gets its own rendering: ${JSON.stringify(value)}`, async (t) => {
    const { pillar } = await openTree(t, {
      'base/top.sls': "base:\n  '*': [a]\n",
      'base/a.sls': 'a: {{ grains.host }}\n',
    });
    await ask(pillar, 'm1', { host: 'plain' });
    const { pillar: answer } = await ask(pillar, 'm2', { host: value });
    if (expected !== undefined) t.deepEqual({ ...answer }, { a: expected });
    t.is(pillar.made, 2);
    t.like((await ask(pillar, 'm3', { host: 'other' })).pillar, { a: 'other' });
    t.is(pillar.made, 2);
  });
}

test('a result of a function that is compared is not shared', async (t) => {
  t.is((await differ(t, "a: {{ salt['grains.get']('host') == 'm1' }}\n")).made, 2);
});

test('text of a macro that prints the id can be read, and is not shared', async (t) => {
  const text =
    '{% macro x() %}{{ grains.id }}{% endmacro %}{% set y = x() %}a: {{ y }}{{ y | length }}\n';
  t.is((await differ(t, text)).made, 2);
});

test('a key with the id is not shared', async (t) => {
  t.is((await differ(t, '{{ grains.id }}: 1\n')).made, 2);
});

test('the options of a template contain the id, and are not shared as a whole', async (t) => {
  t.is((await differ(t, 'a: {{ opts | length }} {{ opts.items() | list | length }}\n')).made, 2);
});

async function second(t: ExecutionContext, host: string): Promise<unknown> {
  const pillar = await differ(t, 'a: {{ grains.host }}\n');
  return { ...(await ask(pillar, 'm3', { host })).pillar };
}

test('a number in a plain scalar gets its own rendering', async (t) => {
  t.deepEqual(await second(t, '12'), { a: 12 });
});

test('a comment in a value gets its own rendering', async (t) => {
  t.deepEqual(await second(t, 'x #y'), { a: 'x' });
});

test('a part without grains that depends on the id is not shared', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  '*': [a]\n",
    'base/a.sls':
      '{% if grains.role is defined %}a: 1{% else %}a: {{ grains.id | upper }}{% endif %}\n',
  });
  for (const id of ['m1', 'm2']) {
    const { proven } = await ask(pillar, id, { role: 'web' });
    t.deepEqual({ ...proven }, { a: id.toUpperCase() });
  }
});

test('a target by id in the top file assigns SLS to one minion only', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls':
      "base:\n  'm1': [secret]\n  'm*': [a]\n  'os:x':\n    - match: grain\n    - b\n",
    'base/secret.sls': 'secret: {{ grains.id }}\n',
    'base/a.sls': 'a: 1\n',
    'base/b.sls': 'b: 1\n',
  });
  t.deepEqual({ ...(await ask(pillar, 'm1')).pillar }, { secret: 'm1', a: 1 });
  for (const id of ['m2', 'm3', 'm4']) {
    const { pillar: answer, proven } = await ask(pillar, id, { os: 'x' });
    t.deepEqual([{ ...answer }, { ...proven }], [{ a: 1, b: 1 }, { a: 1 }]);
  }
  t.is(pillar.made, 2);
});

test('a minion with many grain values does not evict the shared pillar of others', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  '*': [a]\n",
    'base/a.sls': 'a: {{ grains.role }}\nname: {{ grains.id }}\n',
  });
  await ask(pillar, 'good1', { role: 'web' });
  for (let role = 0; role < 40; role += 1) await ask(pillar, 'evil', { role: `r${role}` });
  const before = pillar.made;
  t.like((await ask(pillar, 'good2', { role: 'web' })).pillar, { a: 'web', name: 'good2' });
  t.is(pillar.made, before);
  const { shared, own, grains } = await pillar.inputs();
  t.deepEqual([shared, own], [17, 0]);
  t.deepEqual(grains, [{ grain: 'role', values: 17, pillars: 17, isShared: true }]);
});

test('a result above the limit of bytes of its minion is not held', async (t) => {
  const results = new SharedResults({
    sources: noSources,
    limit: saltLimits.sharedPillars,
    table: 'results',
    now: Date.now,
  });
  const add = (root: string, bytes: number): KeptResult | undefined => {
    const pillar = Buffer.allocUnsafe(bytes);
    const madeFrom = { files: [], lists: [], grains: new GrainReads() };
    return results.add({
      root,
      owner: 'm1',
      late: [],
      secret: '',
      pillar,
      proven: pillar,
      madeFrom,
    });
  };
  const { perOwner = 0 } = saltLimits.sharedPillarBytes;
  const small = add('small', 1000);
  t.is(await results.find('small', {}), small);
  t.is(add('large', perOwner), undefined);
  t.is(await results.find('large', {}), undefined);
  t.deepEqual(results.results(), [small]);
});

/** Returns an assignment of SLS with names of 900 characters. */
function assignmentOf(count: number): Assignment {
  const names = Array.from({ length: count }, (_, at) => `${at}`.padStart(900));
  return { matches: new Map([['base', names]]), mayBeMissing: new Set(), errors: [] };
}

test('the names of assigned SLS count towards the memory of a minion', (t) => {
  const { perOwner = 0, total = 0 } = saltLimits.pillarAssignmentBytes;
  // The largest pillar has 2,000 SLS, and two assignments: with grains and without them.
  const [some, most] = [assignmentOf(1000), assignmentOf(2000)];
  t.is(sizeOfAssignments([some, some]), sizeOfAssignments([some]));
  t.is(sizeOfAssignments([some, most]), 1000 + 3000 * 1000);
  t.true(sizeOfAssignments([some]) < perOwner);
  t.true(sizeOfAssignments([some, most]) > perOwner);
  t.true(16 * perOwner < total);
});

test('minions do not keep an evicted assignment of another minion', (t) => {
  const assignments = new PillarAssignments();
  const add = (id: string, name: string): boolean => {
    const assignment = assignmentOf(1000);
    return assignments.add(id, name, { assignment, proven: assignment });
  };
  t.true(add('m1', 'first'));
  for (const id of ['m1', 'm2']) assignments.assign(id, 'first');
  t.true(add('m1', 'second'));
  // Two assignments of m1 fit its limit. The third evicts the one that was used longest ago.
  t.not(assignments.of('m2'), undefined);
  t.not(assignments.named('second'), undefined);
  t.true(add('m1', 'third'));
  for (const id of ['m1', 'm2']) t.is(assignments.of(id), undefined);
  t.not(assignments.named('second'), undefined);
});

test('grains of a minion have no effect on the shared pillar of others', async (t) => {
  const { pillar } = await openTree(t, standard);
  const evil = { ...grainsOf(0), fqdn: 'evil"\nx: 1', ipv4: ['{{ 1 }}'], other: 'x' };
  await ask(pillar, 'evil', evil);
  t.like((await ask(pillar, 'm0', grainsOf(0))).pillar, { name: 'm0', fqdn: 'm0.example.org' });
  t.false('x' in (await ask(pillar, 'm6', grainsOf(6))).pillar);
  t.is(pillar.made, 2);
});

test('a request does not wait long for the rendering of another minion', async (t) => {
  const turns = new OneAtATime(50);
  const nothing = async (): Promise<undefined> => undefined;
  const { promise, resolve } = Promise.withResolvers<string>();
  const slow = turns.run({ key: 'a', owner: 'm1' }, nothing, () => promise);
  t.is(await turns.run({ key: 'a', owner: 'm2' }, nothing, async () => 'own'), 'own');
  resolve('slow');
  t.is(await slow, 'slow');
});

test('requests with equal inputs wait for one rendering', async (t) => {
  const turns = new OneAtATime(60_000);
  let result: string | undefined;
  let count = 0;
  const find = async (): Promise<string | undefined> => result;
  const work = async (): Promise<string> => {
    count += 1;
    await new Promise(setImmediate);
    result = 'made';
    return result;
  };
  const all = Array.from({ length: 100 }, (_, id) =>
    turns.run({ key: 'a', owner: `m${id}` }, find, work),
  );
  t.deepEqual([...new Set(await Promise.all(all))], ['made']);
  t.is(count, 1);
});

test('a request waits at most once for the renderings of another minion', async (t) => {
  const turns = new OneAtATime(5000);
  const nothing = async (): Promise<undefined> => undefined;
  const ends: (() => void)[] = [];
  const run = (owner: string): Promise<string> => {
    const work = () => new Promise<string>((resolve) => ends.push(() => resolve(owner)));
    return turns.run({ key: 'a', owner }, nothing, work);
  };
  const turn = (): Promise<void> => new Promise(setImmediate);
  const many = Array.from({ length: 40 }, () => run('evil'));
  await turn();
  t.is(ends.length, 1, 'one rendering of a minion at a time');
  const others = ['web1', 'web2', 'web3'].map(run);
  await turn();
  t.is(ends.length, 1, 'others wait for it once');
  ends[0]?.();
  await turn();
  if (ends.length !== 3) return t.fail('the next one of the minion, and one of the others');
  for (let next = 1; next < ends.length; next += 1) {
    ends[next]?.();
    await turn();
  }
  t.deepEqual(await Promise.all(others), ['web1', 'web2', 'web3']);
  t.is((await Promise.all(many)).length, 40);
});

test('requests do not wait for each other if no result is shared', async (t) => {
  const turns = new OneAtATime(60_000);
  let finds = 0;
  const find = async (): Promise<undefined> => {
    finds += 1;
  };
  let isFutile = false;
  const work = async (): Promise<boolean> => {
    await new Promise(setImmediate);
    isFutile = true;
    return true;
  };
  const all = Array.from({ length: 200 }, (_, id) =>
    turns.run({ key: 'a', owner: `m${id}` }, find, work, () => isFutile),
  );
  t.is((await Promise.all(all)).length, 200);
  t.true(finds < 500, `${finds} searches`);
});

test('a changed file replaces the shared pillar', async (t) => {
  const { pillar, directory } = await openTree(t, standard);
  await ask(pillar, 'm0', grainsOf(0));
  layOut(directory, { 'base/common.sls': 'new: {{ grains.id }}\n' });
  t.deepEqual({ ...(await ask(pillar, 'm1', grainsOf(1))).pillar }, { new: 'm1' });
  t.deepEqual({ ...(await ask(pillar, 'm3', grainsOf(3))).pillar }, { new: 'm3' });
  t.is(pillar.made, 2);
});

test('shared pillars survive a restart, and end with the key of their owner', async (t) => {
  const store = createMemoryStore();
  const seal = createSeal(new Uint8Array(32).fill(7));
  let hasKey = true;
  const { pillar, reopen } = await openTree(t, standard, {}, async () => ({
    shared: { store, seal, hasKey: () => hasKey },
  }));
  for (let index = 0; index < 60; index += 1) await ask(pillar, `m${index}`, grainsOf(index));
  t.is(pillar.made, 4);
  const again = await reopen();
  const { pillar: answer } = await ask(again, 'm99', grainsOf(0));
  t.like(answer, { name: 'm99', web: 'Debian on m99' });
  t.deepEqual([again.made, again.parsed], [0, 0]);
  hasKey = false;
  const third = await reopen();
  await ask(third, 'm99', grainsOf(0));
  t.is(third.made, 1);
  const rows = async (): Promise<number> => {
    let count = 0;
    for await (const _ of store.list(['pillar-cache'])) count += 1;
    return count;
  };
  t.is(await rows(), 1);
  third.forget('m99');
  await store.write([{ op: 'delete', key: ['nothing'] }]);
  t.is(await rows(), 0);
});

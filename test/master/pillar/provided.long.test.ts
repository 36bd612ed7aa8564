/** The dependencies of a pillar, how long it is valid, and what minions cannot do with it. */

import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { createLogger } from '#master';
import { packWire, unpackWire, type WireMap, type WireValue } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import type { OwnPillar, PillarConfig } from '#salt/pillar/own-pillar.ts';
import { originsOf } from '#salt/pillar/pillar-origins.ts';
import { mergeOverride } from '#salt/render/merge-pillar.ts';
import { Float } from '#template';
import { within } from '../../helpers/deadline.ts';
import { openTree } from '../../helpers/pillar.ts';
import { slicesOf } from '../../helpers/slices.ts';

const top = "base:\n  '*':\n    - a\n";

interface Asked {
  readonly id?: string;
  readonly grains?: WireMap;
  readonly saltenv?: string;
  readonly pillarenv?: string;
}

async function ask(pillar: OwnPillar, { id = 'web1', grains = {}, ...env }: Asked = {}) {
  const request = { id, grains: { ...grains, id }, saltenv: undefined, pillarenv: undefined };
  return pillar.provide({ ...request, ...env });
}

test('a changed file is in the next pillar', async (t) => {
  const { pillar, directory } = await openTree(t, { 'base/top.sls': top, 'base/a.sls': 'a: 1\n' });
  t.like(await ask(pillar), { pillar: { a: 1 } });
  writeFileSync(path.join(directory, 'base/a.sls'), 'a: 2\n');
  t.like(await ask(pillar), { pillar: { a: 2 } });
});

test('floats without a fraction stay floats, from YAML, JSON and templates', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  '*': [a, b]\n",
    'base/a.sls': 'a: 1.0\nb: {{ {"x": [2.0, 3]} | json }}\nc: {{ 4 / 2 }}\nd: 1\n',
    'base/b.sls': '#!json\n{"e": 1.0, "f": [1e2, 5, 1.5], "g": {"h": -4.0}, "i": "1.0"}',
  });
  const expected: WireMap = {
    ...{ a: new Float(1), b: { x: [new Float(2), 3] }, c: new Float(2), d: 1 },
    ...{ e: new Float(1), f: [new Float(100), 5, 1.5], g: { h: new Float(-4) }, i: '1.0' },
  };
  // The second pillar is returned from the cache of the first.
  for (let times = 0; times < 2; times += 1) {
    const answer = packWire((await ask(pillar)).pillar);
    const read = unpackWire(answer);
    t.deepEqual(fromWire(read), fromWire(expected));
  }
  t.is(JSON.stringify(new Float(1)), '1.0');
});

test('an imported file that is changed, added or removed affects the next pillar', async (t) => {
  const { pillar, directory } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls':
      "{% import_yaml 'x.yaml' as x %}{% include 'y.jinja' ignore missing %}\na: {{ x.n }}\n",
    'base/x.yaml': 'n: 1\n',
  });
  t.like(await ask(pillar), { pillar: { a: 1 } });
  writeFileSync(path.join(directory, 'base/x.yaml'), 'n: 2\n');
  t.like(await ask(pillar), { pillar: { a: 2 } });
  writeFileSync(path.join(directory, 'base/y.jinja'), 'y: 1');
  t.like(await ask(pillar), { pillar: { a: 2, y: 1 } });
  rmSync(path.join(directory, 'base/y.jinja'));
  t.deepEqual(Object.keys((await ask(pillar)).pillar), ['a']);
});

test('a file that was missing is in the next pillar once it exists', async (t) => {
  const { pillar, directory } = await openTree(t, {
    'base/top.sls': "base:\n  '*':\n    - ignore_missing: true\n    - b\n",
  });
  t.deepEqual(Object.keys((await ask(pillar)).pillar), []);
  mkdirSync(path.join(directory, 'base/b'));
  writeFileSync(path.join(directory, 'base/b/init.sls'), 'b: 1\n');
  t.like(await ask(pillar), { pillar: { b: 1 } });
});

test('only grains that were read cause a new pillar', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': "a: {{ grains.get('role', 'none') }}\n",
  });
  t.like(await ask(pillar), { pillar: { a: 'none' } });
  t.like(await ask(pillar, { grains: { role: 'db' } }), { pillar: { a: 'db' } });
  const before = pillar.made;
  t.like(await ask(pillar, { grains: { role: 'db', other: 1 } }), { pillar: { a: 'db' } });
  t.is(pillar.made, before);
});

test('a template that iterates over all grains is rendered again if any changes', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': 'a: {{ grains | length }}\n',
  });
  t.like(await ask(pillar), { pillar: { a: 1 } });
  t.like(await ask(pillar, { grains: { role: 'db' } }), { pillar: { a: 2 } });
});

test('a file without a part in a pillar causes a new one only if it matches a pattern', async (t) => {
  const { pillar, directory } = await openTree(t, {
    'base/top.sls': "base:\n  'web*': [a, b.c]\n  'db*': ['x*']\n",
    'base/a.sls': 'include: [.more, b/d]\na: 1\n',
    'base/more.sls': 'more: 1\n',
    'base/b/c.sls': 'c: 1\n',
    'base/b/d.sls': 'd: 1\n',
  });
  t.like(await ask(pillar), { pillar: { a: 1, more: 1, c: 1, d: 1 } });
  await ask(pillar, { id: 'db1' });
  const before = pillar.made;
  writeFileSync(path.join(directory, 'base/x1.sls'), 'x: 1\n');
  await ask(pillar);
  t.is(pillar.made, before);
  const look = async (): Promise<void> => {
    while (!('x' in (await ask(pillar, { id: 'db1' })).pillar)) {
      await new Promise((resolve) => {
        setTimeout(resolve, 5);
      });
    }
  };
  await within('the list to have the file', look());
  t.is(pillar.made, before + 1);
});

test('new nodegroups are in the next pillar', async (t) => {
  const { pillar, configure } = await openTree(
    t,
    {
      'base/top.sls': 'base:\n  group:\n    - match: nodegroup\n    - a\n',
      'base/a.sls': 'a: 1\n',
    },
    { nodegroups: { group: 'L@web1' } },
  );
  t.like(await ask(pillar), { pillar: { a: 1 } });
  configure({ nodegroups: { group: 'L@web2' } });
  t.deepEqual(Object.keys((await ask(pillar)).pillar), []);
});

test('a target with grains is matched again if the grain changes', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  'role:db':\n    - match: grain\n    - a\n",
    'base/a.sls': 'a: 1\n',
  });
  t.deepEqual(Object.keys((await ask(pillar)).pillar), []);
  t.like(await ask(pillar, { grains: { role: 'db' } }), { pillar: { a: 1 } });
});

test('a template with random values is rendered each time', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': 'a: {{ range(1000) | random }}\n',
  });
  const before = pillar.made;
  await ask(pillar);
  await ask(pillar);
  t.is(pillar.made, before + 2);
});

test('500 minions that ask at once after a change cause one parse of each file', async (t) => {
  const { pillar, directory } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': "{% import 'm.jinja' as m %}\na: {{ grains.id }}\n",
    'base/m.jinja': '{% macro x() %}{% endmacro %}',
  });
  const crowd = Array.from({ length: 500 }, (_, index) => `minion-${index}`);
  await Promise.all(crowd.map((id) => ask(pillar, { id })));
  t.is(pillar.parsed, 3);
  writeFileSync(path.join(directory, 'base/a.sls'), 'a: {{ grains.id }}-2\n');
  const answers = await Promise.all(crowd.map((id) => ask(pillar, { id })));
  t.is(pillar.parsed, 4);
  for (const [index, answer] of answers.entries())
    t.like(answer.pillar, { a: `${crowd[index]}-2` });
});

test('a grain that looks like a template stays text, in templates and in names of files', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  '{{ grains.evil }}':\n    - b\n  '*':\n    - a\n",
    'base/a.sls': 'a: {{ grains.evil | yaml_dquote }}\n{% include grains.path ignore missing %}\n',
    'base/b.sls': 'b: 1\n',
    'secret.jinja': 'secret: 1',
  });
  const grains = { evil: '{{ 7 * 7 }}{% set x = 1 %}', path: '../secret.jinja' };
  const { pillar: made } = await ask(pillar, { grains });
  t.deepEqual({ ...made }, { a: grains.evil });
});

test('files behind links out of the roots do not exist', async (t) => {
  const { pillar, directory } = await openTree(t, {
    'base/top.sls': "base:\n  '*': [out, key]\n",
    'outside/out.sls': 'out: 1\n',
    'state/key.sls': 'key: 1\n',
  });
  symlinkSync(path.join(directory, 'outside/out.sls'), path.join(directory, 'base/out.sls'));
  symlinkSync(path.join(directory, 'state/key.sls'), path.join(directory, 'base/key.sls'));
  const { pillar: made } = await ask(pillar);
  t.deepEqual(Object.keys(made), ['_errors']);
});

test("the master's own folders are not read as pillar, below any root", async (t) => {
  const tree = {
    'top.sls': "base:\n  '*': [state.key, open.a]\n",
    'state/key.sls': 'key: 1\n',
    'open/a.sls': 'a: 1\n',
  };
  const { pillar } = await openTree(t, tree, { pillarRoots: { base: ['.'] } });
  const { pillar: made } = await ask(pillar);
  t.deepEqual(Object.keys(made), ['a', '_errors']);
});

for (const [what, env] of Object.entries({
  'by a path': '../secret',
  absolute: '/etc',
  'the one above': '..',
  'the placeholder itself': '__env__',
})) {
  test(`an environment that is ${what} has no pillar`, async (t) => {
    const { pillar } = await openTree(
      t,
      {
        'envs/qa/top.sls': "qa:\n  '*': [a]\n",
        'secret/top.sls': `'${env}':\n  '*': [a]\n`,
        'secret/a.sls': 'a: 1\n',
        'top.sls': `'..':\n  '*': [secret.a]\n`,
      },
      { pillarRoots: { __env__: ['envs/__env__'] } },
    );
    t.deepEqual(Object.keys((await ask(pillar, { pillarenv: env })).pillar), []);
  });
}

for (const [what, text, said] of [
  [
    'loops without end',
    '{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}',
    /limit/,
  ],
  ['multiplies its output', "{% set x = 'a' * 10 ** 9 %}a: {{ x }}", /limit/],
  ['includes itself', "{% include 'a.sls' %}", /limit|deep/],
  ['nests YAML without end', `a: ${'['.repeat(5000)}`, /nesting|stack/],
  ['is a bomb of aliases', bomb(), /limit/],
] as const) {
  test(`a file that ${what} stops at a limit, and the error has its name and line`, async (t) => {
    const { pillar } = await openTree(
      t,
      { 'base/top.sls': "base:\n  '*': [a, b]\n", 'base/a.sls': text, 'base/b.sls': 'b: 1\n' },
      { pillarSafeRenderError: false },
    );
    const { pillar: made } = await ask(pillar);
    t.like(made, { b: 1 });
    const [error = ''] = errorsOf(t, made);
    t.regex(error, said);
    t.regex(error, /a\.sls, line \d/);
  });
}

test('the log has the file and the line of a fault, once for all minions', async (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const tree = { 'base/top.sls': top, 'base/a.sls': 'a: 1\nb: {{ nothing }}\n' };
  const log = createLogger('info', destination);
  const { pillar } = await openTree(t, tree, {}, async () => ({ log }));
  for (const id of ['web1', 'web2']) {
    const { pillar: made } = await ask(pillar, { id });
    t.deepEqual(errorsOf(t, made), [
      "Rendering SLS 'a' failed. Please see master log for details.",
    ]);
  }
  const faults = lines.filter((line) =>
    line.includes("'nothing' is undefined; file a.sls, line 2"),
  );
  t.is(faults.length, 1);
  t.like(JSON.parse(faults[0] ?? ''), { minion: 'web1', msg: 'pillar has errors' });
});

function bomb(): string {
  const lines = ['x0: &x0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]'];
  for (let index = 1; index < 10; index += 1) {
    lines.push(
      `x${index}: &x${index} [${Array(10)
        .fill(`*x${index - 1}`)
        .join(', ')}]`,
    );
  }
  return lines.join('\n');
}

for (const [line, said] of [
  ['#!py', /"py" is not served: it would run code/],
  ['#!yaml|gpg', /"gpg" is not served: the master does not decrypt/],
  ['#!jinja|yaml|gpg', /"gpg"/],
  ['#!mako|yaml', /"mako" is not served/],
  ['#!yaml|jinja', /"yaml\|jinja"|jinja\|yaml/],
] as const) {
  test(`${line} is refused by name, with an alternative`, async (t) => {
    const { pillar } = await openTree(
      t,
      { 'base/top.sls': top, 'base/a.sls': `${line}\na: 1\n` },
      { pillarSafeRenderError: false },
    );
    const { pillar: made } = await ask(pillar);
    t.deepEqual(Object.keys(made), ['_errors']);
    t.regex(errorsOf(t, made)[0] ?? '', said);
  });
}

test('rights depend on the pillar that a minion has without its grains', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': "base:\n  'role:db':\n    - match: grain\n    - db\n  'web*':\n    - a\n",
    'base/a.sls': "tier: {{ grains.get('tier', 'front') }}\nsafe: 1\n",
    'base/db.sls': 'db: secret\n',
  });
  const { pillar: made, proven } = await ask(pillar, { grains: { role: 'db', tier: 'core' } });
  t.deepEqual({ ...made }, { db: 'secret', tier: 'core', safe: 1 });
  t.deepEqual({ ...proven }, { tier: 'front', safe: 1 });
});

test('with pillar_trusts_grains off a minion gains nothing by false grains', async (t) => {
  const { pillar } = await openTree(
    t,
    {
      'base/top.sls':
        "base:\n  'role:db':\n    - match: grain\n    - db\n  'G@id:web1':\n    - a\n",
      'base/a.sls': "role: {{ salt['grains.get']('role', 'none') }}\nid: {{ grains.id }}\n",
      'base/db.sls': 'db: secret\n',
    },
    { pillarTrustsGrains: false },
  );
  const { pillar: made } = await ask(pillar, { grains: { role: 'db' } });
  t.deepEqual({ ...made }, { role: 'none', id: 'web1' });
});

test('1 MB of pillar is compiled completely', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': `{% for i in range(1000) %}\nkey{{ i }}: '${'x'.repeat(1000)}'\n{% endfor %}\n`,
  });
  t.is(Object.keys((await ask(pillar)).pillar).length, 1000);
});

function errorsOf(t: ExecutionContext, pillar: unknown): readonly string[] {
  const errors: unknown =
    typeof pillar === 'object' && pillar !== null && '_errors' in pillar ? pillar._errors : [];
  t.true(Array.isArray(errors));
  return Array.isArray(errors) ? errors.map(String) : [];
}

test('templates can match a target against the minion, and a pillar depends on the grain used', async (t) => {
  const questions = [
    "match.glob('web*')",
    "match.compound('web* and G@role:db')",
    "match.grain('role:db')",
    "match.list('a,web1')",
    "match.pcre('web[0-9]')",
    "match.ipcidr('10.0.0.0/8')",
    "match.glob('other*', minion_id='other1')",
    "match.compound('G@')",
    "match.glob('db*')",
  ];
  const lines = questions.map((question, at) => `q${at}: {{ salt.${question} }}\n`);
  const { pillar } = await openTree(t, { 'base/top.sls': top, 'base/a.sls': lines.join('') });
  const grains = { role: 'db', ipv4: ['10.1.2.3'] };
  const answers = async (role: string): Promise<unknown[]> =>
    Object.values((await ask(pillar, { grains: { ...grains, role } })).pillar);
  t.deepEqual(await answers('db'), [true, true, true, true, true, true, true, false, false]);
  t.deepEqual(await answers('web'), [true, false, false, true, true, true, true, false, false]);
  t.is(pillar.made, 2);
});

test('a regular expression with lookaround does not silently match nothing', async (t) => {
  for (const call of ["match.pcre('web(?!x)')", "match.compound('E@web(?=1)')"]) {
    const { pillar } = await openTree(
      t,
      { 'base/top.sls': top, 'base/a.sls': `a: {{ salt.${call} | default('none') }}\n` },
      { pillarSafeRenderError: false },
    );
    const [error = ''] = errorsOf(t, (await ask(pillar)).pillar);
    t.regex(error, /lookaround and back-references in regular expressions are not supported/);
  }
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': "a: {{ salt.match.pcre('web(') }}\n",
  });
  t.deepEqual({ ...(await ask(pillar)).pillar }, { a: false });
});

test('a grain that multiplies with aliases gives the minion an error', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': 'motd: {{ grains.motd }}\n',
  });
  const aliases = Array(1000).fill('*a').join(', ');
  const motd = `[&a "${'x'.repeat(10_000)}", ${aliases}]`;
  const [error = ''] = errorsOf(t, (await ask(pillar, { grains: { motd } })).pillar);
  t.regex(error, /Rendering SLS 'a' failed/);
  t.deepEqual(
    { ...(await ask(pillar, { grains: { motd: '[&a x, *a]' } })).pillar },
    {
      motd: ['x', 'x'],
    },
  );
});

test('a grain with too many values for a pillar file gives the minion an error', async (t) => {
  const { pillar } = await openTree(
    t,
    {
      'base/top.sls': "base:\n  '*': [a, b]\n",
      'base/a.sls': 'motd: {{ grains.motd }}\n',
      'base/b.sls': '#!jinja|json\n{"json": {{ grains.motd }} }\n',
    },
    { pillarSafeRenderError: false },
  );
  const provide = (items: number) =>
    ask(pillar, { grains: { motd: `[${Array(items).fill('1').join()}]` } });
  const [first = '', second = ''] = errorsOf(t, (await provide(100_000)).pillar);
  t.regex(first, /limit of nodes is exceeded: the maximum is 100000; file a\.sls/);
  t.regex(second, /more than 100000 values/);
  const list = Array(99_990).fill(1);
  t.deepEqual({ ...(await provide(list.length)).pillar }, { motd: list, json: list });
});

// Serial, because it watches the work of this process.
test.serial('a large pillar lets other work run while it is received and converted', async (t) => {
  const { pillar } = await openTree(t, {
    'base/top.sls': top,
    'base/a.sls': 'motd: {{ grains.motd }}\n',
  });
  const pairs = Array.from({ length: 30_000 }, (_, at) => `k${at}: ${at}`);
  const grains = { motd: `{${pairs.join(', ')}}` };
  const slices = await slicesOf(() => ask(pillar, { grains }));
  // Each pass visits 60,000 keys and values.
  t.true(slices.length > 100, `${slices.length} slices`);
  t.true(Math.max(...slices) < 2 * maxSliceSteps, `${Math.max(...slices)} steps`);
});

// Results of Salt for the same files; see test/fixtures/pillar/README.md.

interface Recorded {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly roots?: readonly string[];
  readonly roots_map?: Readonly<Record<string, readonly string[]>>;
  readonly opts?: Readonly<Record<string, unknown>>;
  readonly saltenv?: string;
  readonly pillarenv?: string;
  readonly override?: WireMap;
  readonly fails?: boolean;
  readonly pillar: Encoded;
}

/** JSON form of values. JSON has no floats without a fraction, and no keys other than text. */
type Encoded =
  | null
  | boolean
  | number
  | string
  | readonly Encoded[]
  | { readonly float: string }
  | { readonly map: readonly (readonly [Encoded, Encoded])[] };

const fixture = new URL('../../../test/fixtures/pillar/cases.json', import.meta.url);
const recorded: { readonly grains: WireMap; readonly cases: readonly Recorded[] } = JSON.parse(
  readFileSync(fixture, 'utf8'),
);

const members: Readonly<Record<string, keyof PillarConfig>> = {
  pillar_includes_override_sls: 'pillarIncludesOverrideSls',
  pillar_merge_lists: 'pillarMergeLists',
  pillar_raise_on_missing: 'pillarRaiseOnMissing',
  pillar_safe_render_error: 'pillarSafeRenderError',
  pillar_source_merging_strategy: 'pillarSourceMergingStrategy',
  pillarenv: 'pillarenv',
  nodegroups: 'nodegroups',
  state_top: 'stateTop',
  renderer: 'renderer',
  jinja_trim_blocks: 'jinjaTrimBlocks',
  jinja_lstrip_blocks: 'jinjaLstripBlocks',
};

for (const it of recorded.cases) {
  test(`a recorded pillar is compiled like by Salt (${it.name})`, async (t) => {
    const roots = it.roots_map ?? Object.fromEntries((it.roots ?? ['base']).map((e) => [e, [e]]));
    const options = Object.entries(it.opts ?? {}).map(([name, value]) => {
      const member = members[name];
      if (member === undefined) throw new TypeError(`no option ${name}`);
      return [member, value];
    });
    const { pillar } = await openTree(t, it.files, {
      ...Object.fromEntries(options),
      pillarRoots: roots,
    });
    const answer = await pillar.provide({
      id: 'web1',
      grains: { ...recorded.grains, id: 'web1' },
      saltenv: it.saltenv,
      pillarenv: it.pillarenv,
    });
    const mergeLists = it.opts?.pillar_merge_lists === true;
    const merge = { strategy: 'smart', mergeLists } as const;
    const budget = new WorkBudget(unlimitedSteps);
    const whole = await mergeOverride(answer.pillar, it.override ?? {}, merge, budget);
    const [ours, theirs] = [fromWire(whole), fromSalt(it.pillar)];
    t.deepEqual(shortened(ours), shortened(theirs));
  });
}

test('the recorded trees cover all features', (t) => {
  const lines = recorded.cases.map(({ files }) =>
    Math.max(...Object.values(files).map((text) => text.split('\n').length)),
  );
  t.true(recorded.cases.length >= 60);
  t.true(recorded.cases.filter(({ fails }) => fails).length >= 10);
  t.true(lines.filter((count) => count > 80).length >= 10);
});

/**
 * Form of values for comparison. Maps are sorted pairs, so that the order of keys does not matter.
 */
type Canonical = null | boolean | number | string | readonly Canonical[] | { pairs: Canonical[][] };

function fromSalt(value: Encoded): Canonical {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(fromSalt);
  if ('float' in value) return floatOf(Number(value.float));
  return sorted(value.map.map(([key, inner]) => [fromSalt(key), fromSalt(inner)]));
}

function fromWire(value: WireValue): Canonical {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(fromWire);
  if (value instanceof Float) return floatOf(value.value);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return sorted(entries.map(([key, inner]) => [fromWire(key), fromWire(inner)]));
}

/** Marks a float without a fraction, so that it differs from an integer. */
function floatOf(value: number): Canonical {
  return Number.isInteger(value) ? `float ${value}` : value;
}

function isList(value: Encoded): value is readonly Encoded[] {
  return Array.isArray(value);
}

function sorted(pairs: Canonical[][]): Canonical {
  const byText = pairs.map((pair): [string, Canonical[]] => [JSON.stringify(pair[0]), pair]);
  byText.sort(([left], [right]) => (left < right ? -1 : 1));
  return { pairs: byText.map(([, pair]) => pair) };
}

/** Shortens error texts to Salt's own words. The rest is from its YAML parser or contains paths. */
function shortened(value: Canonical): Canonical {
  if (typeof value === 'string')
    return value.replace(/(render error:\n(?:Jinja [^;:]*)?).*$/s, '$1');
  if (typeof value !== 'object' || value === null) return value;
  if ('pairs' in value) return { pairs: value.pairs.map((pair) => pair.map(shortened)) };
  return value.map(shortened);
}

// Origins of values, for trees of any size.

const request = { id: 'web1', grains: { id: 'web1' }, saltenv: undefined, pillarenv: undefined };

test('an explanation names the uppermost files, and counts the others', async (t) => {
  const names = Array.from({ length: 250 }, (_, index) => `s${String(index).padStart(3, '0')}`);
  const files = Object.fromEntries(names.map((name) => [`base/${name}.sls`, `a: ${name}\n`]));
  const { pillar } = await openTree(t, { ...files, 'base/top.sls': "base:\n  '*': ['s*']\n" });
  const { layers } = await pillar.compile(request);
  const { files: named, omitted } = originsOf(layers, 'a');
  t.deepEqual(
    named.map(({ sls }) => sls),
    names.slice(50),
  );
  t.is(omitted, 50);
  t.deepEqual(originsOf(layers, 'b'), { files: [], omitted: 0 });
});

test('the includes of a pillar are limited', async (t) => {
  const include = (count: number): string => `include: [${Array(count).fill('b').join(', ')}]\n`;
  const tree = { 'base/top.sls': "base:\n  '*': [a]\n", 'base/b.sls': 'b: 1\n' };
  const few = await openTree(t, { ...tree, 'base/a.sls': include(300) });
  t.like(await few.pillar.provide(request), { pillar: { b: 1 } });
  const many = await openTree(t, { ...tree, 'base/a.sls': include(20_001) });
  await t.throwsAsync(many.pillar.provide(request), {
    code: 'ERR_PILLAR_FILE',
    message: /20000 includes/,
  });
});

/**
 * Functions in templates of pillar, with the values of Salt 3007.13, and functions that are
 * refused.
 */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions } from '#config';
import type { Master } from '#master';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

const tree: FileTree = {
  'pillar/top.sls': "base:\n  '*': [t]\n",
  'pillar/p.txt': 'only in pillar\n',
  'pillar/t.sls': '',
  'pdev/only.sls': 'a: 1\n',
  'salt/f.txt': 'in file_roots\n',
  'salt/d/g.txt': 'g\n',
  'salt/map.jinja': 'm: {{ grains.id }}\nn: [1.0, {{ x | default("none") }}]\n',
  'salt/loop.jinja': "{{ salt['slsutil.renderer']('salt://loop.jinja') }}",
};

interface Started {
  readonly master: Master;
  /** Returns the value of an expression in the pillar of m1, or the first error. */
  readonly evaluate: (expression: string) => Promise<unknown>;
}

async function start(
  t: ExecutionContext,
  config: Partial<MasterOptions> = {},
  files: FileTree = {},
): Promise<Started> {
  const directory = temporaryDirectory(t);
  layOut(directory, { ...tree, ...files });
  const below = (name: string): string => path.join(directory, name);
  const { master } = await startVectorMaster(t, {
    config: {
      pillarRoots: { base: [below('pillar')], dev: [below('pdev')] },
      fileRoots: { base: [below('salt')] },
      pillarSafeRenderError: false,
      id: 'master1',
      ...config,
    },
  });
  const evaluate = async (expression: string): Promise<unknown> => {
    writeFileSync(below('pillar/t.sls'), `r: {{ (${expression}) | json }}\n`);
    const shown = await master.pillar.show({ minion: 'm1' });
    const { r, _errors: errors } = JSON.parse(JSON.stringify(shown));
    return errors === undefined ? r : errors[0];
  };
  return { master, evaluate };
}

test('slsutil.findup looks for at most 1,000 names', async (t) => {
  const { evaluate } = await start(t);
  const names = (count: number): string =>
    `salt['slsutil.findup']('d', range(${count}) | map('string') | list + ['f.txt'])`;
  t.is(await evaluate(names(999)), 'f.txt');
  t.regex(String(await evaluate(names(1000))), /more than 1000 names/);
});

/** Expressions with the values that Salt 3007.13 renders in pillar. */
const asInSalt: readonly (readonly [expression: string, value: unknown])[] = [
  ["salt['match.filter_by']({'x*': 1, 'm*': 2}, minion_id=grains['id'])", 2],
  ["salt['match.filter_by']({'x*': 1}, minion_id='y', default='x*')", 1],
  ["salt['match.filter_by']({'m1': {'a': 1}}, minion_id='m1', merge={'b': 2})", { a: 1, b: 2 }],
  ["salt['match.search_by']({'a': ['m*', 'm1'], 'b': ['z']}, minion_id='m1')", ['a', 'a']],
  ["salt['match.ifelse']('z', 1, 'm*', 2, 3, minion_id='m1')", 2],
  ["salt['pillar.file_exists']('p.txt')", true],
  ["salt['pillar.file_exists']('only.sls')", true],
  ["salt['pillar.file_exists']('only.sls', 'base')", false],
  ["salt['pillar.file_exists']('nope')", false],
  ["salt['cp.get_file_str']('salt://f.txt')", 'in file_roots\n'],
  ["salt['cp.get_file_str']('salt://p.txt')", false],
  ["salt['cp.list_master'](prefix='d')", ['d/g.txt']],
  ["salt['slsutil.path_exists']('f.txt')", true],
  ["salt['slsutil.path_exists']('d')", true],
  ["salt['slsutil.dir_exists']('d')", true],
  ["salt['slsutil.dir_exists']('f.txt')", false],
  ["salt['slsutil.file_exists']('p.txt')", false],
  ["salt['slsutil.findup']('d', 'f.txt')", 'f.txt'],
  ["salt['slsutil.renderer']('salt://map.jinja', x=2)", { m: 'm1', n: [1, 2] }],
  ["salt['slsutil.renderer'](string='a: {{ 1 + 1 }}')", { a: 2 }],
  ["salt['slsutil.renderer'](string='a {{ name }}', name='w', default_renderer='jinja')", 'a w'],
  ["salt['cp.list_states']()", []],
  ["salt['cp.list_master_dirs']()", ['d']],
  ["salt['config.option']('id')", 'master1'],
  ["salt['config.option']('id', omit_opts=True)", 'm1'],
  ["salt['config.get']('id')", 'master1'],
  ["salt['config.get']('id', omit_opts=True)", 'm1'],
  ["salt['config.get']('minion_id')", ''],
  ["salt['config.get']('renderer')", 'jinja|yaml'],
  ["salt['config.get']('file_client')", 'local'],
  ["salt['config.get']('pillarenv', 'd')", null],
  ["salt['config.get']('keep_jobs_seconds:x', 'd')", 'd'],
  ["salt['config.option']('x:y', 'd')", 'd'],
  ["salt['config.option']('nope')", ''],
  ["salt['status.time']('%Y') | length", 4],
  ["salt['file.dirname']('/a/b/c')", '/a/b'],
  ["salt['file.dirname']('/a/b/')", '/a/b'],
  ["salt['file.dirname']('//')", '//'],
  ["salt['file.basename']('/a/b/')", ''],
  ["salt['file.join']('a', '/b', 'c')", '/b/c'],
  ["salt['file.normpath']('/a/../b//c/')", '/b/c'],
  ["salt['file.normpath']('')", '.'],
  ["salt['grains.filter_by']({'m1': {'a': 1}}, grain='id', merge='')", { a: 1 }],
  ["salt['grains.filter_by']({'m*': none, 'm1': 5, 'default': 7}, grain='id')", 7],
  ["salt['config.get']('x:y', 'd')", 'd'],
  ["salt['config.get']('x/y', default='d', delimiter='/')", 'd'],
  ["salt['config.get']('id', 'd', omit_opts=true, omit_grains=true)", 'd'],
  ["salt['network.ip_in_subnet']('10.1.2.3', '10.1.0.0/16')", true],
  ["salt['network.ip_in_subnet']('10.1.2.3', ['10.1.0.0/16'])", false],
  ["salt['network.ip_in_subnet']('10.1.2.3', '10.1.2.3/16')", false],
  ["salt['network.ip_in_subnet']('fe80::1', 'fe80::/10')", true],
  ["salt['grains.fetch']('nope', 'd')", 'd'],
  ["salt['grains.get']('nope', none)", null],
  ["salt['grains.equals']('id', 'm1')", true],
  ["salt['grains.equals']('nope', '')", true],
  ["salt['grains.item']('id', 'y')", { id: 'm1', y: '' }],
  ["salt['random.get_str'](5) | length", 5],
  ["salt['random.get_str'](5, chars='a')", 'aaaaa'],
  ["salt['test.ping']()", true],
  ['salt.test.ping()', true],
  ["salt['test.echo']('x')", 'x'],
  ["'test.ping' in salt", true],
  ['salt.cmd is defined', true],
  ["salt['pillar.get']('a:b', {'x': 1}, merge=True)", { x: 1 }],
  ["salt['pillar.get']('a', none)", null],
  ["salt['pillar.fetch']('a', 'd')", 'd'],
  ["salt['pillar.item']('a', 'b')", { a: '', b: '' }],
  ["salt['pillar.raw']()", {}],
  ["salt['pillar.filter_by']({'a': 1, 'default': 2}, 'x')", 2],
  ["salt['sdb.get']('plain')", 'plain'],
  ["salt['sdb.get']('sdb://x/y')", 'sdb://x/y'],
  ["salt['saltutil.runner']('test.arg', arg=[1])", { args: [1], kwargs: {} }],
  ["salt['log.warning']('seen')", true],
];

test('functions return in templates of pillar what they return in Salt', async (t) => {
  const { evaluate } = await start(t);
  for (const [expression, value] of asInSalt) {
    t.deepEqual(await evaluate(expression), value, expression);
  }
});

/** Templates that change a dict, with the text that Salt 3007.13 renders. */
const changing: readonly (readonly [template: string, result: string])[] = [
  [
    "{% do salt['defaults.merge'](a, {'y': 2, 'n': {'k': [2]}}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [2]}, 'y': 2}",
  ],
  ["{% do salt['slsutil.update'](a, {'y': 2}) %}{{ a }}", "{'x': 1, 'n': {'k': [1]}, 'y': 2}"],
  ["{% do salt['slsutil.merge'](a, {'y': 2}) %}{{ a }}", "{'x': 1, 'n': {'k': [1]}}"],
  ["{% do salt['defaults.merge'](a, {'y': 2}, in_place=False) %}{{ a.y is defined }}", 'False'],
  ["{% do salt['defaults.merge'](a, none) %}{{ a.x }}", '1'],
  [
    "{% set b = a.n %}{% do salt.defaults.merge(a, {'n': {'z': 3}}) %}{{ b }}",
    "{'k': [1], 'z': 3}",
  ],
  [
    "{% set t = {'m*': {'x': 1}} %}{% set f = salt['grains.filter_by'](t, 'id', merge=a) %}{% do f.update({'o': 1}) %}{{ t }}",
    "{'m*': {'x': 1, 'n': {'k': [1]}, 'o': 1}}",
  ],
  [
    "{% set t = {'m*': {'n': {'z': 0}}} %}{% do salt['grains.filter_by'](t, 'id', merge=a) %}{% do t['m*'].n.update({'o': 1}) %}{{ a }}{{ t }}",
    "{'x': 1, 'n': {'k': [1]}}{'m*': {'n': {'z': 0, 'k': [1], 'o': 1}, 'x': 1}}",
  ],
  [
    "{% set t = {'m*': {'x': 1}, 'b': {'n': {'z': 0}}} %}{% set f = salt['grains.filter_by'](t, 'id', base='b', merge=a) %}{{ t }}{{ f }}",
    "{'m*': {'x': 1}, 'b': {'n': {'z': 0}}}{'n': {'z': 0, 'k': [1]}, 'x': 1}",
  ],
  [
    "{% set t = {'m*': {'n': {'q': 0}}, 'b': {'y': 1}} %}{% set f = salt['grains.filter_by'](t, 'id', base='b', merge=a) %}{{ t }}{{ f }}",
    "{'m*': {'n': {'q': 0, 'k': [1]}}, 'b': {'y': 1}}{'y': 1, 'n': {'q': 0, 'k': [1]}, 'x': 1}",
  ],
  [
    "{% set t = {'m*': none} %}{% do salt['grains.filter_by'](t, 'id', merge=a).update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}, 'o': 1}",
  ],
  [
    "{% set t = {'m*': a} %}{% do salt['grains.filter_by'](t, 'id').update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}, 'o': 1}",
  ],
  [
    "{% set t = {'default': a} %}{% do salt['pillar.filter_by'](t, 'p', merge={'n': {'o': 1}}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1], 'o': 1}}",
  ],
  [
    "{% set t = {'m1': a} %}{% do salt['match.filter_by'](t, minion_id='m1', merge={'n': {'o': 1}}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1], 'o': 1}}",
  ],
  [
    "{% do salt['pillar.get']('p', a).update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}, 'o': 1}",
  ],
  [
    "{% do salt['pillar.get']('p', a, merge=True).n.update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}}",
  ],
  [
    "{% do salt['grains.get']('p', a).update({'o': 1}) %}{% do salt['config.get']('p', a).n.update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1], 'o': 1}, 'o': 1}",
  ],
  [
    "{% set u = {'k': {'z': 1}} %}{% do salt['defaults.merge'](a, u) %}{% do a.k.update({'o': 1}) %}{{ u }}",
    "{'k': {'z': 1, 'o': 1}}",
  ],
  [
    "{% set d = salt['defaults.merge'](a, {}, in_place=False) %}{% do d.n.update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}}",
  ],
  [
    "{% set d = salt['slsutil.merge'](a, {'y': 1}) %}{% do d.n.update({'o': 1}) %}{{ a }}",
    "{'x': 1, 'n': {'k': [1]}}",
  ],
  [
    "{% set d = salt['slsutil.merge'](a, {'x': 5, 'y': 1}, strategy='overwrite') %}{% do d.n.update({'o': 1}) %}{{ a }}{{ d }}",
    "{'x': 5, 'n': {'k': [1]}}{'x': 5, 'n': {'k': [1], 'o': 1}, 'y': 1}",
  ],
  [
    "{% set d = salt['slsutil.merge'](a, {'x': 5, 'y': 1}, strategy='list') %}{% do d.n.update({'o': 1}) %}{{ a }}{{ d }}",
    "{'x': 1, 'n': {'k': [1], 'o': 1}}{'x': [1, 5], 'n': {'k': [1], 'o': 1}}",
  ],
  [
    "{% do salt['slsutil.update'](a, {'n': {'y': 2}}, recursive_update=False) %}{{ a }}",
    "{'x': 1, 'n': {'y': 2}}",
  ],
  [
    "{% set d = salt['defaults.deepcopy'](a) %}{% do d.n.update({'o': 1}) %}{{ a }}{{ d }}",
    "{'x': 1, 'n': {'k': [1]}}{'x': 1, 'n': {'k': [1], 'o': 1}}",
  ],
  [
    "{% set g = {'h1': {'x': 2}, 'h2': {'n': {'k': [2]}}} %}{% set h = g.h1 %}{% do salt['defaults.update'](g, a) %}{{ g }}{{ h }}{{ a }}",
    "{'h1': {'x': 2, 'n': {'k': [1]}}, 'h2': {'x': 1, 'n': {'k': [1, 2]}}}{'x': 2}{'x': 1, 'n': {'k': [1]}}",
  ],
  [
    "{% set g = {'h1': {'x': 2}} %}{{ salt['defaults.update'](g, a, in_place=False) }}{{ g }}",
    "{'h1': {'x': 2, 'n': {'k': [1]}}}{'h1': {'x': 2}}",
  ],
  ["{% do salt['defaults.merge'](a, src={'y': 2}) %}{{ a }}", "{'x': 1, 'n': {'k': [1]}, 'y': 2}"],
  [
    "{% set l = (1, 2) %}{{ salt['test.echo'](l) }}{% do salt['test.echo'](a).update({'o': 1}) %}{{ a }}",
    "(1, 2){'x': 1, 'n': {'k': [1]}, 'o': 1}",
  ],
  ["{{ salt['defaults.merge'](none, {'y': 2}, in_place=False) }}", "{'y': 2}"],
];

test('a function that merges changes the dict of the template as in Salt', async (t) => {
  const { evaluate } = await start(t);
  for (const [template, result] of changing) {
    const text = `{% set a = {'x': 1, 'n': {'k': [1]}} %}${template}`;
    const rendered = `salt['slsutil.renderer'](string=${JSON.stringify(text)}, default_renderer='jinja')`;
    t.is(await evaluate(rendered), result, template);
  }
});

/** Intentional differences; see docs/compatibility/templates.md. */
const otherThanInSalt: readonly (readonly [expression: string, value: unknown])[] = [
  ["salt['match.glob']('m*')", true],
  ["salt['match.filter_by']({'m*': 1, 'default': 2})", 1],
  ['tplpath', 't.sls'],
  ["salt['pillar.file_exists']('../salt/f.txt')", false],
  ["salt['mine.get']('*', 'x')", {}],
];

test('targets in pillar refer to the minion, and paths cannot leave a root', async (t) => {
  const { evaluate } = await start(t);
  for (const [expression, value] of otherThanInSalt) {
    t.deepEqual(await evaluate(expression), value, expression);
  }
});

/** Calls that fail, each with a part of the reason. */
const refused: readonly (readonly [expression: string, reason: RegExp])[] = [
  [
    "salt['cmd.run']('id')",
    /function cmd.run is not served: .*cannot run commands.*docs\/compatibility.md/,
  ],
  ["salt['nosuch.fun']()", /function nosuch.fun is not served: templates do not have/],
  ["salt['cmd.run']('id') | default('x')", /function cmd.run is not served/],
  ["salt['environ.get']('HOME')", /environ.get is not served: .*environment of the master/],
  ["salt['file.file_exists']('/etc/passwd')", /file.file_exists is not served: .*slsutil/],
  ["salt['http.query']('http://a')", /http.query is not served: .*minion_http/],
  ["salt['network.in_subnet']('10.0.0.0/8')", /in_subnet is not served: .*ip_in_subnet/],
  ["salt['cp.get_file_str']('/etc/passwd')", /files below salt:\/\//],
  ["salt['cp.get_file_str']('salt://../pillar/p.txt') == false", /^true$/],
  ["salt['slsutil.renderer']('salt://loop.jinja')", /nested more than 20 deep/],
  ["salt['slsutil.renderer']('/etc/passwd')", /files below salt:\/\//],
  [
    "salt['saltutil.runner']('salt.execute', arg=['*', 'cmd.run', 'id'])",
    /may not call the runner/,
  ],
  ["salt['saltutil.cmd']('*', 'cmd.run', ['id'])", /saltutil.cmd is not served/],
  ["salt['network.ip_in_subnet']('x', '10.0.0.0/8')", /does not appear to be an IPv4 or IPv6/],
  ["salt['pillar.keys']('a')", /Pillar key not found: a/],
  ["salt['defaults.merge'](none, {})", /Can't perform in-place merge into NoneType/],
  ["salt['defaults.update'](none, {})", /Can't perform in-place update into NoneType/],
  ["salt['config.get']('user', 'd') | default('x')", /option user of the master is not available/],
  ["salt['config.option']('ext_pillar')", /option ext_pillar of the master is not available/],
];

test('a function that acts outside the master is refused by name, with an alternative', async (t) => {
  const { evaluate } = await start(t);
  for (const [expression, reason] of refused) {
    t.regex(String(await evaluate(expression)), reason, expression);
  }
});

test('the results of runners give no rights', async (t) => {
  const { master, evaluate } = await start(t);
  const explained = async (expression: string): Promise<boolean> => {
    await evaluate(expression);
    return (await master.pillar.explain({ minion: 'm1', key: 'r' })).followsFromGrains;
  };
  t.true(await explained("salt['saltutil.runner']('test.arg', ['x'])"));
  t.false(await explained("salt['cp.get_file_str']('salt://f.txt')"));
});

const onDemand: FileTree = {
  'pillar/top.sls': "base:\n  'm*': [b]\n  'master1*': [c]\n  'm1': [t]\n",
  'pillar/b.sls': 'b: 1\n',
  'pillar/c.sls': 'c: {{ grains.id }} {{ opts.id }}\n',
};

test('pillar.ext compiles the pillar of the master with a source that the template names', async (t) => {
  const sources = temporaryDirectory(t);
  writeFileSync(path.join(sources, 'master1.json'), '{"e": 1.0, "b": 2}');
  const { evaluate } = await start(
    t,
    { onDemandExtPillar: ['minion_files', 'cmd_yaml'] },
    onDemand,
  );
  const named = `{'minion_files': '${sources}'}`;
  const base = { b: 1, c: 'm1 master1' };
  t.deepEqual(await evaluate(`salt['pillar.ext'](${named})`), { ...base, b: 2, e: 1 });
  t.deepEqual(
    await evaluate(`salt['pillar.ext']("{minion_files: ${sources}}", pillar={'b': 9, 'o': 1})`),
    { ...base, b: 9, e: 1, o: 1 },
  );
  t.deepEqual(await evaluate("salt['pillar.ext']({})"), base);
  const problems: readonly (readonly [call: string, reason: RegExp])[] = [
    [
      "{'git': []}",
      /may not use git: the option `on_demand_ext_pillar` permits only minion_files, cmd_yaml/,
    ],
    ["{'cmd_yaml': 'id'}", /ext_pillar cmd_yaml is not supported/],
    [
      "{'minion_files': {'directory': 5}}",
      /an external pillar in the argument `external` has invalid options/,
    ],
    ["['a']", /`external` must be a dictionary/],
  ];
  for (const [external, reason] of problems) {
    t.regex(String(await evaluate(`salt['pillar.ext'](${external})`)), reason, external);
  }
});

test('pillar.ext fails in the pillar that it compiles, instead of calling itself', async (t) => {
  const { evaluate } = await start(t, { onDemandExtPillar: ['minion_files'] });
  const found = await evaluate("salt['pillar.ext']({})");
  t.regex(JSON.stringify(found), /pillar\.ext is not available in the master/);
});

test('the data of pillar.ext give no rights', async (t) => {
  const { master, evaluate } = await start(t, {}, onDemand);
  await evaluate("salt['pillar.ext']({})");
  t.true((await master.pillar.explain({ minion: 'm1', key: 'r' })).followsFromGrains);
});

/** Pillars that minions with equal inputs share. */

import test, { type ExecutionContext } from 'ava';
import type { WireMap } from '#minion-protocol';
import type { OwnPillar } from '#salt/pillar/own-pillar.ts';
import type { PillarAnswer } from '#salt/render/pillar-source.ts';
import { openTree } from '../../helpers/pillar.ts';

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
  t.is(pillar.made, 4);
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

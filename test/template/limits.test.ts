import test from 'ava';
import { renderJinja, TemplateError } from '../../template/index.ts';

/** What never ends or grows without end; each by another way. */
const traps: readonly (readonly [string, string])[] = [
  [
    'a loop over a list that it appends to',
    '{% set l = [1] %}\n{% for x in l %}{% do l.append(x) %}{% endfor %}',
  ],
  [
    'loops inside of loops',
    '\n{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}',
  ],
  ['a text repeated', "\n{{ 'a' * 10**9 }}"],
  ['a list repeated', '\n{{ [0] * 10**9 }}'],
  [
    'a text that doubles',
    "{% set ns = namespace(s='ab') %}\n{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
  ],
  [
    'a list of lists that doubles',
    '{% set ns = namespace(l=[1]) %}\n{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}',
  ],
  [
    'such lists compared',
    '{% set ns = namespace(a=[1], b=[1]) %}\n{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}',
  ],
  [
    'such lists as JSON',
    '{% set ns = namespace(l=[1]) %}\n{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|json }}',
  ],
  ['a width of a percent format', "\n{{ '%1000000000d' % 1 }}"],
  ['a precision of a percent format', "\n{{ '%.1000000000f' % 1 }}"],
  ['a width of a format', "\n{{ '{:1000000000}'.format(1) }}"],
  ['a width to center in', "\n{{ 'a'.center(1000000000) }}"],
  ['a width of indentation', "\n{{ 'a'|indent(1000000000, true) }}"],
  ['powers of powers', '\n{{ 9**(9**9) }}'],
  [
    'an integer that squares',
    '{% set ns = namespace(n=9) %}\n{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}',
  ],
  ['a macro that calls itself', '{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}'],
  [
    'a recursive loop without end',
    '{% set l = [] %}{% do l.append(l) %}\n{% for x in l recursive %}{{ loop(x) }}{% endfor %}',
  ],
  ['replacing nothing by much', "\n{{ ('a' * 100000).replace('', 'b' * 100000) }}"],
  ['combinations', '\n{{ range(60)|combinations(30)|list|length }}'],
  ['permutations', '\n{{ range(60)|permutations|list|length }}'],
  ['hosts of a network', "\n{{ '10.0.0.0/8'|network_hosts }}"],
  ['a join of one text many times', "\n{{ ('a' * 100000).join(range(1000)|map('string')) }}"],
  ['brackets that never close', "\n{{ ('<' * 300000)|striptags }}"],
  ['hyphens without a word', "\n{{ ('-' * 200000)|wordwrap(5) }}"],
];

for (const [what, template] of traps) {
  test(`${what} stops at a limit, with file and line`, (t) => {
    const error = t.throws(
      () => renderJinja(template, { name: 'trap.sls', limits: { steps: 200_000 } }),
      {
        instanceOf: TemplateError,
        code: 'ERR_TEMPLATE_LIMIT',
      },
    );
    t.is(error?.place.file, 'trap.sls');
    t.true((error?.place.line ?? 0) >= 1);
  });
}

test('a range beyond what jinja2 allows is refused in its way', (t) => {
  const error = t.throws(() => renderJinja('{{ range(10**9) }}', { name: 'x' }), {
    instanceOf: TemplateError,
    code: 'ERR_TEMPLATE_RUNTIME',
  });
  t.is(error?.kind, 'OverflowError');
});

test('files that include or import each other stop at the limit of depth', (t) => {
  const files: Readonly<Record<string, string>> = {
    a: "{% include 'b' %}",
    b: "\n{% include 'a' %}",
    c: "{% import 'c' as c %}",
    d: "{% extends 'd' %}",
  };
  for (const name of ['a', 'c', 'd']) {
    t.throws(
      () => renderJinja(files[name] ?? '', { name, loader: { load: (file) => files[file] } }),
      { code: 'ERR_TEMPLATE_LIMIT' },
      name,
    );
  }
});

test('expressions nested too deep are refused, not a crash', (t) => {
  const deep = 20_000;
  for (const source of [
    `{{ ${'('.repeat(deep)}1${')'.repeat(deep)} }}`,
    `{{ ${'not '.repeat(deep)}1 }}`,
    `{{ 1${'+1'.repeat(deep)} }}`,
    '{% if 1 %}'.repeat(deep),
  ]) {
    t.throws(() => renderJinja(source, { name: 'deep.sls' }), { instanceOf: TemplateError });
  }
});

test('a regular expression that would explode elsewhere takes its time in proportion', (t) => {
  const source = "{{ ('a' * 5000)|regex_match('(a+)+$|(a|aa)+b') is none }}";
  t.is(renderJinja(source, { name: 'x' }), 'False');
});

test('a limit is what the caller says', (t) => {
  const source = '{% for i in range(50) %}{{ i }}{% endfor %}';
  t.throws(() => renderJinja(source, { name: 'x', limits: { steps: 40 } }), {
    code: 'ERR_TEMPLATE_LIMIT',
  });
  t.notThrows(() => renderJinja(source, { name: 'x', limits: { steps: 400 } }));
});

test('comparisons of long lists count, whichever way they are written', (t) => {
  const lists = '{% set l = range(9000) | list %}{% set m = range(9000) | list %}';
  for (const comparison of ['-1 in l', '-1 not in l', 'l == m', 'l != m', '-1 is in l']) {
    const template = `${lists}{% for a in range(9000) %}{% set x = ${comparison} %}{% endfor %}`;
    t.throws(() => renderJinja(template, { name: 'x', limits: { steps: 100_000 } }), {
      instanceOf: TemplateError,
      message: /limit of 100000 steps/,
    });
  }
});

test('what no step foresees ends with the time', (t) => {
  const template = '{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}';
  const limits = { steps: Number.POSITIVE_INFINITY, milliseconds: 5 };
  t.throws(() => renderJinja(template, { name: 'x', limits }), {
    instanceOf: TemplateError,
    message: /limit of 5 milliseconds/,
  });
});

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { Float, parseTemplate, parseYaml, renderJinja, TemplateError, toPython } from '#template';
import { renderText, type TextOptions } from '../helpers/jinja.ts';
import { testWhere } from '../helpers/needs.ts';

function failure(source: string, options: TextOptions = {}): TemplateError | undefined {
  try {
    renderText(source, options);
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
  return undefined;
}

test('an undefined variable is named in Salt’s words, with file and line', (t) => {
  const error = failure('a: 1\nb: {{ missing.key }}\n');
  t.is(error?.code, 'ERR_TEMPLATE_UNDEFINED');
  t.is(error?.message, "Jinja variable 'missing' is undefined; file web/init.sls, line 2");
});

test('a syntax error has its line', (t) => {
  const error = failure('a\n\n{% for %}');
  t.is(error?.code, 'ERR_TEMPLATE_SYNTAX');
  t.deepEqual(error?.place, { file: 'web/init.sls', line: 3 });
});

test('an error inside of an imported macro has the place in its own file', (t) => {
  const loader = { load: () => 'x\n{% macro m() %}\n\n{{ 1 / 0 }}{% endmacro %}' };
  const error = failure("{% import 'lib.jinja' as lib %}\n{{ lib.m() }}", { loader });
  t.is(error?.kind, 'ZeroDivisionError');
  t.deepEqual(error?.place, { file: 'lib.jinja', line: 4 });
});

test('a file that is not there is named', (t) => {
  const error = failure("{% include 'no.jinja' %}");
  t.is(error?.code, 'ERR_TEMPLATE_NOT_FOUND');
  t.is(error?.detail, 'no.jinja');
});

test('text without places for values takes what is undefined, as in Python', (t) => {
  t.is(renderText("{{ 'a%%' % missing }}{{ 'b' % (true)[0] }}"), 'a%b');
  t.is(failure("{{ 'a' % 1 }}")?.kind, 'TypeError');
  t.is(failure("{{ 'a%s' % missing }}")?.kind, 'UndefinedError');
});

test('relative names stay inside of the tree', (t) => {
  const asked: string[] = [];
  const loader = { load: (name: string) => void asked.push(name) };
  failure("{% include './map.jinja' %}", { loader });
  failure("{% include '../other/map.jinja' %}", { loader });
  failure("{% include '../../etc/passwd' %}", { loader });
  failure("{% include 'a/../../../etc/passwd' %}", { loader });
  t.deepEqual(asked, ['web/map.jinja', 'other/map.jinja']);
});

test('an error of the loader ends the rendering unchanged', (t) => {
  const reason = new Error('not read yet');
  const load = (): never => {
    throw reason;
  };
  t.is(
    t.throws(() => renderText("{% include 'a' %}", { loader: { load } })),
    reason,
  );
});

test('functions are found by both of their spellings, and no others', (t) => {
  const functions = { 'pillar.get': (args: readonly unknown[]) => `<${String(args[0])}>` };
  const source = "{{ salt['pillar.get']('a:b') }}{{ salt.pillar.get('c') }}";
  t.is(renderText(source, { functions }), '<a:b><c>');
  for (const call of ["salt['cmd.run']('id')", "salt.cmd.run('id')", "salt.get('cmd.run')('id')"]) {
    const error = failure(`{{ ${call} }}`, { functions });
    t.is(error?.code, 'ERR_TEMPLATE_UNSUPPORTED', call);
    t.regex(error?.message ?? '', /the function cmd\.run is not served/);
  }
  t.not(failure("{{ salt.constructor('id') }}", { functions }), undefined);
});

test('default() does not hide that a function is not served', (t) => {
  const source = "{{ salt['cmd.run'] | default('x') }}{{ (salt.cmd.run | default('x'))('id') }}";
  t.is(failure(source, { functions: {} })?.code, 'ERR_TEMPLATE_UNSUPPORTED');
});

test('the operator in says which functions are served', (t) => {
  const functions = { 'pillar.get': () => '' };
  t.is(renderText("{{ 'pillar.get' in salt }}{{ 'cmd.run' in salt }}", { functions }), 'TrueFalse');
});

test('a function that refuses is Salt’s kind of error', (t) => {
  const functions = {
    'a.b': () => {
      throw new Error('refused');
    },
  };
  const error = failure("\n{{ salt['a.b']() }}", { functions });
  t.is(error?.code, 'ERR_TEMPLATE_FUNCTION');
  t.is(
    error?.message,
    'Problem running salt function in Jinja template: refused; file web/init.sls, line 2',
  );
});

test('values from outside are never read as templates', (t) => {
  const context = { grains: { evil: '{{ 1 + 1 }}{% include "x" %}' } };
  t.is(renderText('{{ grains.evil }}', { context }), '{{ 1 + 1 }}{% include "x" %}');
});

test('nothing of JavaScript can be reached', (t) => {
  const context = { text: 'a', dict: {}, list: [] };
  for (const path of [
    'constructor',
    '__proto__',
    'prototype',
    'toString',
    'valueOf',
    'length',
    'hasOwnProperty',
  ]) {
    for (const name of Object.keys(context)) {
      t.is(failure(`{{ ${name}.${path} }}`, { context })?.code, 'ERR_TEMPLATE_UNDEFINED', path);
      t.is(failure(`{{ ${name}['${path}'] }}`, { context })?.code, 'ERR_TEMPLATE_UNDEFINED', path);
    }
  }
  t.is(failure("{{ 'a'|constructor }}")?.code, 'ERR_TEMPLATE_SYNTAX');
  t.is(failure("{{ ''.__class__.__mro__ }}")?.kind, 'SecurityError');
});

test('a filter that is left out is refused by name', (t) => {
  const error = failure("{{ 'http://x'|http_query }}");
  t.is(error?.code, 'ERR_TEMPLATE_UNSUPPORTED');
  t.regex(error?.detail ?? '', /http_query/);
});

test('undefined values print nothing where the operator allows them', (t) => {
  t.is(renderText('[{{ missing }}]', { strict: false }), '[]');
});

test('a template that was read once renders any number of times', (t) => {
  const template = parseTemplate('{% set l = [] %}{% do l.append(n) %}{{ l }}', { name: 'x' });
  for (const n of [1, 2]) t.is(renderJinja(template, { context: { n } }), `[${n}]`);
});

test('blocks are trimmed as Salt’s options say', (t) => {
  const source = 'a\n  {% if true %}\n  b\n  {% endif %}\nc\n';
  t.is(renderText(source), 'a\n  \n  b\n  \nc\n');
  t.is(renderText(source, { trimBlocks: true, lstripBlocks: true }), 'a\n  b\nc\n');
});

// Templates and the output of the real jinja2, recorded and live [fixtures/template/record.py].

interface Recording {
  readonly context: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, string>>;
  readonly cases: readonly (readonly [string, string | { readonly error: string }])[];
}

const fixtures = new URL('../../test/fixtures/template/', import.meta.url);
const program = new URL('record.py', fixtures).pathname;
const python = '/usr/bin/python3';

test('recorded templates give the text or the kind of error that Salt gives', (t) => {
  const recording: Recording = JSON.parse(readFileSync(new URL('jinja.json', fixtures), 'utf8'));
  t.true(recording.cases.length > 4000);
  compare(t, recording);
});

const testLive = testWhere(hasJinja(), 'the package python3-jinja2');
testLive('fresh templates give the text or the kind of error that jinja2 gives', (t) => {
  const seed = process.env.JINJA_SEED ?? '935532';
  t.log(`seed ${seed}`);
  const output = execFileSync(python, ['-W', 'ignore', program, '--live', seed, '150'], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONHASHSEED: '1' },
    maxBuffer: 2 ** 26,
    timeout: 40_000,
  });
  const recording: Recording = JSON.parse(output);
  compare(t, { ...recording, cases: recording.cases.filter(([, want]) => isStable(want)) });
});

/** Whether the result is the same in each process. Addresses of objects are not. */
function isStable(want: string | { readonly error: string }): boolean {
  return typeof want !== 'string' || !want.includes(' at 0x');
}

function compare(t: ExecutionContext, { context, files, cases }: Recording): void {
  const different = cases.flatMap(([template, want]) => {
    const got = renderRecorded(template, context, files);
    const wanted = typeof want === 'string' ? want : want.error;
    return got === wanted ? [] : [{ template, wanted, got }];
  });
  t.deepEqual(different.slice(0, 5), []);
}

/** Renders a recorded case. JSON cannot represent 4.0 or large ints, so these are marked. */
function renderRecorded(
  template: string,
  context: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, string>>,
): string {
  const special = { whole: new Float(4), big: 12345678901234567890n };
  try {
    return renderText(template, {
      name: '<template>',
      context: { ...structuredClone(context), ...special },
      loader: { load: (name) => files[name] },
    });
  } catch (error) {
    if (error instanceof TemplateError) return error.kind;
    throw error;
  }
}

function hasJinja(): boolean {
  if (!existsSync(python)) return false;
  try {
    execFileSync(python, ['-c', 'import jinja2'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Templates that would run forever or grow without limit, each in another way. */
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
  ['hyphens without a word', "\n{{ ('-' * 200000)|wordwrap(5) }}"],
];

for (const [what, template] of traps) {
  test(`${what} stops at a limit, with file and line`, (t) => {
    const error = t.throws(
      () => renderText(template, { name: 'trap.sls', limits: { steps: 200_000 } }),
      {
        instanceOf: TemplateError,
        code: 'ERR_TEMPLATE_LIMIT',
      },
    );
    t.is(error?.place.file, 'trap.sls');
    t.true((error?.place.line ?? 0) >= 1);
  });
}

test('striptags keeps brackets that never close', (t) => {
  t.is(renderText("{{ ('<' * 300000)|striptags|length }}"), '300000');
  t.is(renderText("{{ '<b>a</b> <!-- x --> <i'|striptags }}"), 'a <i');
});

test('a range beyond what jinja2 allows is refused in its way', (t) => {
  const error = t.throws(() => renderText('{{ range(10**9) }}', { name: 'x' }), {
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
      () => renderText(files[name] ?? '', { name, loader: { load: (file) => files[file] } }),
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
    t.throws(() => renderText(source, { name: 'deep.sls' }), { instanceOf: TemplateError });
  }
});

test('a regular expression that would explode elsewhere takes its time in proportion', (t) => {
  const source = "{{ ('a' * 5000)|regex_match('(a+)+$|(a|aa)+b') is none }}";
  t.is(renderText(source, { name: 'x' }), 'False');
});

test('a limit is what the caller says', (t) => {
  const source = '{% for i in range(50) %}{{ i }}{% endfor %}';
  t.throws(() => renderText(source, { name: 'x', limits: { steps: 40 } }), {
    code: 'ERR_TEMPLATE_LIMIT',
  });
  t.notThrows(() => renderText(source, { name: 'x', limits: { steps: 400 } }));
});

test('comparisons of long lists count, whichever way they are written', (t) => {
  const lists = '{% set l = range(9000) | list %}{% set m = range(9000) | list %}';
  for (const comparison of ['-1 in l', '-1 not in l', 'l == m', 'l != m', '-1 is in l']) {
    const template = `${lists}{% for a in range(9000) %}{% set x = ${comparison} %}{% endfor %}`;
    t.throws(() => renderText(template, { name: 'x', limits: { steps: 100_000 } }), {
      instanceOf: TemplateError,
      message: /limit of steps is exceeded: the maximum is 100000/,
    });
  }
});

test('the time limit ends a rendering that counts no steps', (t) => {
  const template = '{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}';
  const limits = { steps: Number.POSITIVE_INFINITY, milliseconds: 5 };
  t.throws(() => renderText(template, { name: 'x', limits }), {
    instanceOf: TemplateError,
    message: /limit of milliseconds is exceeded: the maximum is 5/,
  });
});

// YAML and how Salt's loader parses it, recorded [fixtures/template/record_yaml.py].

const fixture = new URL('../../test/fixtures/template/yaml.json', import.meta.url);
const cases: readonly (readonly [string, string | { readonly error: true }])[] = JSON.parse(
  readFileSync(fixture, 'utf8'),
);

function read(text: string): string | { readonly error: true } {
  try {
    const data = toPython(parseYaml(text, { name: 'x.sls' }));
    return renderText("{{ '%r' % (data,) }}", { name: 'show', context: { data } });
  } catch (error) {
    if (error instanceof TemplateError && error.code === 'ERR_YAML') return { error: true };
    throw error;
  }
}

test('recorded texts give the data that Salt reads, or fail as they do there', (t) => {
  for (const [text, want] of cases) {
    // Plain data has neither sets nor tuples.
    if (/!!(?:set|omap)/.test(text) || text.startsWith('[a, b]: c')) continue;
    t.deepEqual(read(text), want, JSON.stringify(text));
  }
});

test('an error names the file and the line', (t) => {
  const error = t.throws(() => parseYaml('a: 1\nb: 2\na: 3\n', { name: 'web.sls' }), {
    instanceOf: TemplateError,
    code: 'ERR_YAML',
  });
  t.deepEqual(error?.place, { file: 'web.sls', line: 3 });
  t.is(error?.detail, "found conflicting ID 'a'");
});

test('aliases that multiply stop at the limit', (t) => {
  const levels = Array.from({ length: 12 }, (_, i) => {
    const items = Array.from({ length: 10 }, () => (i === 0 ? 'x' : `*a${i - 1}`));
    return `a${i}: &a${i} [${items.join(', ')}]`;
  });
  t.throws(() => parseYaml(levels.join('\n'), { name: 'bomb' }), { code: 'ERR_TEMPLATE_LIMIT' });
});

test('an alias inside of what it names is refused', (t) => {
  t.throws(() => parseYaml('a: &a [*a]\n', { name: 'loop' }), { code: 'ERR_YAML' });
});

test('nesting stops at the limit', (t) => {
  for (const depth of [150, 20_000]) {
    t.throws(() => parseYaml('['.repeat(depth) + ']'.repeat(depth), { name: 'deep' }), {
      code: 'ERR_TEMPLATE_LIMIT',
    });
  }
});

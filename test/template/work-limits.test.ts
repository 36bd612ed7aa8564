/** Filters whose cost does not depend on the number of statements. */

import test from 'ava';
import { Alias, Parser } from 'yaml';
import { parseYaml } from '#template';
import { UsageMeter } from '#template/python/limits.ts';
import { compileRegex } from '#template/python/regex.ts';
import { renderText } from '../helpers/jinja.ts';

function render(source: string, context: Readonly<Record<string, unknown>> = {}): string {
  return renderText(source, { name: 'web.sls', context });
}

const exceeded = { code: 'ERR_TEMPLATE_LIMIT' };

test('the indentation of JSON counts before it is made', (t) => {
  for (const source of [
    '{{ [1] | tojson(80000000) }}',
    '{{ [1] | json(indent=80000000) }}',
    '{{ [[[[1, 2], 3], 4], 5] | tojson(4000000) }}',
    '{{ {"a": 1} | tojson(99999999999) }}',
    '{% for i in range(12) %}{% set x = [1] | tojson(3000000) %}{% endfor %}',
  ]) {
    t.throws(() => render(source), { ...exceeded, message: /characters/ }, source);
  }
  t.is(render('{{ [1, [2]] | tojson(2) }}'), '[\n  1,\n  [\n    2\n  ]\n]');
  const rows = { rows: Array.from({ length: 5000 }, (_, id) => ({ id, name: 'x' })) };
  t.true(render('{{ rows | tojson(2) }}', rows).length > 100_000);
});

test('counted repeats of a regular expression are bounded', (t) => {
  for (const filter of ['regex_search', 'regex_match']) {
    for (const pattern of ['x{1000}x{1000}x{1000}', '(x{100}){100}']) {
      const message = /instructions of a regular expression is exceeded: the maximum is 2000/;
      t.throws(() => render(`{{ 'x' | ${filter}('${pattern}') }}`), { ...exceeded, message });
    }
  }
  t.throws(() => render("{{ 'x' is match('(x{100}){100}') }}"), exceeded);
  t.throws(() => render("{{ 'x' | regex_replace('(x{100}){100}', '') }}"), exceeded);
  const many = "{% for i in range(1000) %}{{ 'x' | regex_search('x{999}' ~ i) }}{% endfor %}";
  t.throws(() => render(many), exceeded);
});

test('matching counts the length of the text times the branches of the expression', (t) => {
  const source = `{{ text | regex_search('${'x*'.repeat(100)}y') }}`;
  t.throws(() => render(source, { text: 'x'.repeat(200_000) }), exceeded);
  t.is(render("{{ text | regex_search('(y)') }}", { text: `${'x'.repeat(200_000)}y` }), "('y',)");
});

test('an expression is compiled once for each rendering', (t) => {
  const meter = new UsageMeter();
  const flags = { ignoreCase: false, multiline: false };
  t.is(compileRegex('a+', flags, meter), compileRegex('a+', flags, meter));
  t.not(
    compileRegex('a+', flags, meter),
    compileRegex('a+', { ...flags, ignoreCase: true }, meter),
  );
  const loop =
    "{% for i in range(20000) %}{% if i | string is match('[0-9]{1,9}$') %}x{% endif %}{% endfor %}";
  t.is(render(loop).length, 20_000);
});

test('a slice counts the items that it copies', (t) => {
  const source = '{% for i in range(100000) %}{% set part = items[1:] %}{% endfor %}';
  t.throws(() => render(source, { items: Array(10_000).fill(1) }), exceeded);
  const text = '{% for i in range(100000) %}{% set part = text[1:] %}{% endfor %}';
  t.throws(() => render(text, { text: 'x'.repeat(10_000) }), exceeded);
  t.is(render('{{ "abcdef"[1:4] }}'), 'bcd');
});

test('wide formats with grouped digits count their digits', (t) => {
  t.throws(() => render('{{ "{:010000000,d}".format(1) }}'), exceeded);
  t.is(render('{{ "{:08,d}".format(1234) }}'), '0,001,234');
});

test.serial('levels of YAML are counted before they are parsed', (t) => {
  const { next } = Parser.prototype;
  let lexemes = 0;
  Parser.prototype.next = function* counted(source) {
    lexemes += 1;
    yield* next.call(this, source);
  };
  t.teardown(() => {
    Parser.prototype.next = next;
  });
  for (const unit of ['{{', '[', '- ', '? ', '{a,']) {
    lexemes = 0;
    const error = t.throws(() => parseYaml(unit.repeat(50_000), { name: 'web.sls' }), exceeded);
    t.regex(
      error?.message ?? '',
      /the limit of levels of nesting is exceeded: the maximum is 100; file web.sls, line 1/,
    );
    t.true(lexemes < 1000, `${lexemes} lexemes of ${unit}`);
  }
  const list = `${'- - a\n'.repeat(200)}- [${'[a], '.repeat(200)}]\n`;
  t.is((parseYaml(list, { name: 'web.sls' }) as unknown[]).length, 201);
});

test.serial('many aliases of YAML are resolved by one visit of the document', (t) => {
  const { resolve } = Alias.prototype;
  let visits = 0;
  Alias.prototype.resolve = function counted(...args: Parameters<Alias['resolve']>) {
    visits += 1;
    return resolve.apply(this, args);
  };
  t.teardown(() => {
    Alias.prototype.resolve = resolve;
  });
  const text = `a: &a [x]\nb: {<<: {c: *a}, d: *a}\ne: [${'*a, '.repeat(500)}]\n`;
  const data = parseYaml(text, { name: 'web.sls' });
  const list = Array(500).fill(['x']);
  const merged = new Map(['c', 'd'].map((name) => [name, ['x']]));
  t.deepEqual(
    data,
    new Map<string, unknown>([
      ['a', ['x']],
      ['b', merged],
      ['e', list],
    ]),
  );
  t.is(visits, 0);
});

test('aliases of YAML add a limited number of nodes and characters', (t) => {
  const repeated = (item: string, times: number): string =>
    `a: &a ${item}\nb: [${Array(times).fill('*a').join(', ')}]\n`;
  const list = `[${Array(100).fill('x').join(', ')}]`;
  const message = /characters that aliases add is exceeded: the maximum is 4000000; file web.sls/;
  for (const text of [repeated('x'.repeat(9_990), 401), repeated(list, 3604)]) {
    t.true(text.length < 20_000);
    t.throws(() => parseYaml(text, { name: 'web.sls' }), { ...exceeded, message });
  }
  for (const text of [repeated('x'.repeat(9_990), 400), repeated(list, 3603)]) {
    t.true(parseYaml(text, { name: 'web.sls' }) instanceof Map);
  }
  const plain = `[${Array(300_000).fill('x').join(',')}]`;
  t.is((parseYaml(plain, { name: 'web.sls' }) as unknown[]).length, 300_000);
});

test('aliases of one node of YAML share its value', (t) => {
  const data = parseYaml('a: &a {b: [1]}\nc: *a\nd: *a\n', { name: 'web.sls' });
  const [first, ...others] = data instanceof Map ? data.values() : [];
  t.deepEqual(first, new Map([['b', [1]]]));
  t.is(others.length, 2);
  for (const other of others) t.is(other, first);
});

test('YAML that a filter reads counts its characters', (t) => {
  const text = 'a'.repeat(500_000);
  t.throws(() => render('{{ text | load_yaml }}', { text }), exceeded);
  t.is(render('{{ (text | load_yaml).a }}', { text: `a: 1 # ${'x'.repeat(50_000)}` }), '1');
});

test.serial('wrapping a long word reads it once, and counts its lines', (t) => {
  const { from } = Array;
  let characters = 0;
  Array.from = (...args: [never]) => {
    const list: never[] = from(...args);
    characters += list.length;
    return list;
  };
  t.teardown(() => {
    Array.from = from;
  });
  const length = 10_000;
  const lines = render('{{ text | wordwrap(10) }}', { text: '\u{1f600}'.repeat(length) }).split(
    '\n',
  );
  t.deepEqual([lines.length, lines.at(-1)], [length / 10, '\u{1f600}'.repeat(10)]);
  t.true(characters < 20 * length, `${characters} characters`);
  const text = 'a'.repeat(1_200_000);
  t.throws(() => render('{{ text | wordwrap(1) }}', { text }), { ...exceeded, message: /steps/ });
  const wide = "{{ text | wordwrap(1, true, 'x' * 4000) }}";
  const message = /characters/;
  t.throws(() => render(wide, { text: 'a'.repeat(10_000) }), { ...exceeded, message });
});

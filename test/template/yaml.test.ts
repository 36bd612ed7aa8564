/** YAML as Salt's loader reads it, recorded [fixtures/template/record_yaml.py]. */
import { readFileSync } from 'node:fs';
import test from 'ava';
import { parseYaml, renderJinja, TemplateError, toPython } from '../../template/index.ts';

const fixture = new URL('../../../test/fixtures/template/yaml.json', import.meta.url);
const cases: readonly (readonly [string, string | { readonly error: true }])[] = JSON.parse(
  readFileSync(fixture, 'utf8'),
);

function read(text: string): string | { readonly error: true } {
  try {
    const data = toPython(parseYaml(text, { name: 'x.sls' }));
    return renderJinja("{{ '%r' % (data,) }}", { name: 'show', context: { data } });
  } catch (error) {
    if (error instanceof TemplateError && error.code === 'ERR_YAML') return { error: true };
    throw error;
  }
}

test('recorded texts give the data that Salt reads, or fail as they do there', (t) => {
  for (const [text, want] of cases) {
    // Plain data knows neither sets nor tuples.
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

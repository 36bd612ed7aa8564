/** Every threat of the catalogue has a test that exists, or its sentence. */
import { readFileSync } from 'node:fs';
import test from 'ava';
import { catalogue } from './catalogue.ts';

/** How many rows each family has. */
const families = { C: 55, N: 17, M: 20, G: 17, A: 21, B: 14 } as const;

function read(name: string): string {
  return readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');
}

test('the catalogue has every row once', (t) => {
  const expected = Object.entries(families).flatMap(([family, rows]) =>
    Array.from({ length: rows }, (_, row) => `${family}-${String(row + 1).padStart(2, '0')}`),
  );
  const ids = catalogue.map(({ id }) => id);
  t.deepEqual(
    ids.filter((id) => !id.startsWith('H-')),
    expected,
  );
  t.is(new Set(ids).size, ids.length);
  for (const id of ids.filter((it) => it.startsWith('H-'))) t.regex(id, /^H-\d{2}[a-z]?$/);
});

test('every test that the catalogue names is there', (t) => {
  for (const { id, tests } of catalogue) {
    for (const reference of tests) {
      const [file = '', ...title] = reference.split(': ');
      const source = read(`test/${file}`).replaceAll("\\'", "'");
      t.true(hasTitle(source, title.join(': ')), `${id}: ${reference}`);
    }
  }
});

test('what has no test has a sentence, and every sentence is in SECURITY.md', (t) => {
  const words = read('SECURITY.md').replaceAll(/\s+/g, ' ');
  for (const { id, tests, sentence } of catalogue) {
    t.true(tests.length > 0 || sentence !== undefined, id);
    if (sentence !== undefined) t.true(words.includes(sentence), `${id}: ${sentence}`);
  }
});

/** As a whole, between its quotes. */
function hasTitle(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}${quote}`));
}

test('every vulnerability of docs/security.md names a row of the catalogue', (t) => {
  const rows = read('docs/security.md')
    .split('\n')
    .filter((line) => line.startsWith('| CVE-'));
  t.true(rows.length > 30);
  const ids = new Set(catalogue.map(({ id }) => id));
  for (const row of rows) t.true(ids.has(row.split('|').at(-2)?.trim() ?? ''), row);
});

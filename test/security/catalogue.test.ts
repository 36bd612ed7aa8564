/**
 * Checks that each threat in the catalogue names an existing test, or a sentence in SECURITY.md.
 */

import { readFileSync } from 'node:fs';
import test from 'ava';
import { catalogue } from './catalogue.ts';
import { applied, isTitle, readMutations } from './mutation.ts';

/** Number of rows in each family of threats. */
const families = { C: 55, N: 17, M: 20, G: 17, A: 21, B: 14 } as const;

function read(name: string): string {
  return readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
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
  for (const id of ids.filter((it) => it.startsWith('H-'))) t.regex(id, /^H-\d{2,3}[a-z]?$/);
});

test('every test named in the catalogue exists', (t) => {
  for (const { id, tests } of catalogue) {
    for (const reference of tests) {
      const [file = '', ...title] = reference.split(': ');
      const source = read(`test/${file}`).replaceAll("\\'", "'");
      t.true(hasTitle(source, title.join(': ')), `${id}: ${reference}`);
    }
  }
});

test('each row without a test has a reason, and each reason is in SECURITY.md', (t) => {
  const words = read('SECURITY.md').replaceAll(/\s+/g, ' ');
  for (const { id, tests, sentence } of catalogue) {
    t.true(tests.length > 0 || sentence !== undefined, id);
    if (sentence !== undefined) t.true(words.includes(sentence), `${id}: ${sentence}`);
  }
});

/** Whether the source contains the whole title between quotes. */
function hasTitle(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}${quote}`));
}

test('every vulnerability of docs/salt-vulnerabilities.md names a row of the catalogue', (t) => {
  const rows = read('docs/salt-vulnerabilities.md')
    .split('\n')
    .filter((line) => line.startsWith('| CVE-'));
  t.true(rows.length > 30);
  const ids = new Set(catalogue.map(({ id }) => id));
  for (const row of rows) t.true(ids.has(row.split('|').at(-2)?.trim() ?? ''), row);
});

// These tests check what `npm run mutate` relies on: that each patch applies and names existing
// rows and tests.

const mutations = readMutations();

/**
 * Rows with tests that check that something does not exist. A mutation can therefore remove no
 * line.
 */
const nothingToTakeOut: Readonly<Record<string, string>> = {
  'C-07': 'no temporary file lies where others may write, and the parser of YAML builds no objects',
  'C-39': 'no relay is served',
  'C-51': 'no request names a file of the key store',
  'C-52': 'no job is a file',
  'C-54': 'the parser of YAML runs nothing',
  'M-08': 'no relay is served',
  'G-17': 'whether a kill hits the moment between two writes is chance',
};

test('every mutation applies to the source and changes it', (t) => {
  t.true(mutations.length > 30);
  for (const mutation of mutations) {
    for (const { file } of mutation.hunks) {
      const content = read(file);
      t.not(applied(mutation, file, content), content, mutation.name);
    }
  }
});

test('every mutation names rows of the catalogue and existing tests', (t) => {
  const ids = new Set(catalogue.map(({ id }) => id));
  for (const { name, rows, test: file, red } of mutations) {
    for (const row of rows) t.true(ids.has(row), `${name}: ${row}`);
    const source = read(file).replaceAll("\\'", "'");
    for (const title of red) t.true(isWritten(source, title), `${name}: ${title}`);
  }
});

test('every row with tests has a mutation, or a reason why there is none', (t) => {
  const mutated = new Set(mutations.flatMap(({ rows }) => rows));
  const without = catalogue.filter(({ id, tests }) => tests.length > 0 && !mutated.has(id));
  t.deepEqual(
    without.map(({ id }) => id),
    Object.keys(nothingToTakeOut),
  );
});

/**
 * Whether a test in the file has this title, or generates it. Words in the place of a placeholder
 * must occur in the file too.
 */
function isWritten(source: string, title: string): boolean {
  const titles = [...source.matchAll(/\w\(\s*(['"`])(.*?)\1/gs)].map((match) => match[2] ?? '');
  if (titles.includes(title)) return true;
  const generating = titles.filter((written) => written.includes('${') && isTitle(written, title));
  return generating.some((written) =>
    wordsOf(title)
      .filter((word) => !wordsOf(written).includes(word))
      .every((word) => source.includes(word)),
  );
}

function wordsOf(text: string): readonly string[] {
  return text.match(/[A-Za-z]{2,}/g) ?? [];
}

test('a title with placeholders matches each test that it generates', (t) => {
  const written = `over \${wire}, a (b) is c`;
  t.true(isTitle(written, 'over tcp, a (b) is c'));
  t.false(isTitle(written, 'over tcp, a (b) is cd'));
  t.false(isTitle('over x, a', 'over y, a'));
});

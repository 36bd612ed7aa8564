/**
 * Reads mutations. A mutation removes one protection and names the tests that must fail then. Its
 * file in mutations/ has header lines `Name: value`, followed by a unified diff. The diff is
 * applied by its content: the text must occur exactly once in the file, at any line.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** One change of one file. */
interface Hunk {
  /** Path of the file in the repository. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

/** Content of a file in mutations/. */
export interface Mutation {
  readonly name: string;
  /** Rows of the threat catalogue. */
  readonly rows: readonly string[];
  /** Description of the protection that is removed. */
  readonly what: string;
  /** Path of the test file in the repository. */
  readonly test: string;
  /** Titles of the tests that must fail, and no others, as written in the test file. */
  readonly red: readonly string[];
  readonly hunks: readonly Hunk[];
}

const root = new URL('../../', import.meta.url);
const folder = new URL('test/security/mutations/', root);
/**
 * Returns all mutations, sorted by name.
 * @throws Error for a file that is not a mutation
 */
export function readMutations(): Mutation[] {
  return readdirSync(folder)
    .sort()
    .map((name) => parse(name, readFileSync(new URL(name, folder), 'utf8')));
}

/**
 * Applies the hunks for a file to its content.
 * @throws Error if the text of a hunk does not occur, or occurs more than once
 */
export function applied({ name, hunks }: Mutation, file: string, content: string): string {
  let result = content;
  for (const { before, after } of hunks.filter((hunk) => hunk.file === file)) {
    const [start = '', ...rest] = result.split(before);
    if (rest.length !== 1)
      throw new Error(`${name}: its place in ${file} is there ${rest.length} times`);
    result = start + after + rest.join('');
  }
  return result;
}

/**
 * Whether the title of a test that ran matches a title as written, in which `${…}` stands for any
 * text.
 */
export function isTitle(written: string, ran: string): boolean {
  const parts = written
    .split(/\$\{[^}]*\}/)
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(ran);
}

function parse(fileName: string, text: string): Mutation {
  const name = fileName.replace(/\.patch$/, '');
  const start = text.indexOf('--- a/');
  const head = text.slice(0, start).split('\n');
  const valuesOf = (field: string): string[] =>
    head
      .filter((line) => line.startsWith(`${field}: `))
      .map((line) => line.slice(field.length + 2));
  const [rows = ''] = valuesOf('Rows');
  const [what = ''] = valuesOf('What');
  const [test = ''] = valuesOf('Test');
  const red = valuesOf('Red');
  const hunks = text
    .slice(start)
    .split(/^--- a\//m)
    .slice(1)
    .flatMap(hunksOf);
  if (!rows || !what || !test || red.length === 0 || hunks.length === 0) {
    throw new Error(`${name}: not a mutation`);
  }
  return { name, rows: rows.split(', '), what, test, red, hunks };
}

function hunksOf(diff: string): Hunk[] {
  const [file = '', , ...lines] = diff.split('\n');
  const hunks = lines
    .join('\n')
    .split(/^@@.*@@.*\n/m)
    .slice(1);
  return hunks.map((hunk) => ({
    file,
    before: side(hunk, '-'),
    after: side(hunk, '+'),
  }));
}

/** Returns the lines of one side of a hunk, each with its line feed. */
function side(hunk: string, sign: '-' | '+'): string {
  const lines = hunk.split('\n').filter((line) => line.startsWith(' ') || line.startsWith(sign));
  return lines.map((line) => `${line.slice(1)}\n`).join('');
}

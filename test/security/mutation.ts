/**
 * A mutation takes one protection out, and names the tests that must notice. Its file in mutations/
 * has a head of `Name: value` lines and a unified diff below it, which is applied by its content,
 * wherever in the file that has moved to, and to one place only.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** One change of one file. */
interface Hunk {
  /** From the root of the repository. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

/** What a file in mutations/ says. */
export interface Mutation {
  readonly name: string;
  /** Rows of the catalogue. */
  readonly rows: readonly string[];
  /** What is no longer so. */
  readonly what: string;
  /** The file of tests, from the root of the repository. */
  readonly test: string;
  /** Titles as they stand in the file: those that turn red, and no others. */
  readonly red: readonly string[];
  readonly hunks: readonly Hunk[];
}

const root = new URL('../../', import.meta.url);
const folder = new URL('test/security/mutations/', root);
/** All of them, by name. @throws Error for a file that is none */
export function readMutations(): Mutation[] {
  return readdirSync(folder)
    .sort()
    .map((name) => parse(name, readFileSync(new URL(name, folder), 'utf8')));
}

/**
 * The content of a file with the hunks that are about it applied.
 * @throws Error when the text of a hunk is not there, or more than once
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

/** Whether the title of a test that ran is one that stands in the file so, with its `${…}` filled in. */
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

/** The lines of one side, each with its line feed. */
function side(hunk: string, sign: '-' | '+'): string {
  const lines = hunk.split('\n').filter((line) => line.startsWith(' ') || line.startsWith(sign));
  return lines.map((line) => `${line.slice(1)}\n`).join('');
}

/**
 * A mutation takes one protection out, and names the tests that must notice. Its file in mutations/
 * has a head of `Name: value` lines. NAME.mutation names a protection that is marked in the source:
 * the statement below a line `// protection: name` is removed, or `Instead:` takes its place.
 * NAME.patch has a unified diff below the head; it is applied by its content, wherever in the file
 * that has moved to, and to one place only.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** One change of one file. */
interface Hunk {
  /** From the root of the repository. */
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

/** A statement below a `// protection: name` line. */
export interface MarkedProtection {
  readonly name: string;
  /** From the root of the repository. */
  readonly file: string;
  /** The marker's line and the statement's, each with its line feed. */
  readonly text: string;
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
const rooms = [
  'acl',
  'cli',
  'client',
  'cluster',
  'config',
  'guests',
  'heat-bridge',
  'master',
  'minion-protocol',
  'runtime',
  'salt',
  'salt-api',
  'server',
  'store',
  'template',
];
const keywords = new Set(
  'true false null void return const let new if else of for instanceof typeof continue await'.split(
    ' ',
  ),
);
const marker = /^( *)\/\/ protection: ([a-z0-9-]+)$/;

/** All of them, by name. @throws Error for a file that is none */
export function readMutations(): Mutation[] {
  const marked = readProtections();
  return readdirSync(folder)
    .sort()
    .map((name) => parse(name, readFileSync(new URL(name, folder), 'utf8'), marked));
}

/** All statements of the rooms that are marked as protections. */
export function readProtections(): MarkedProtection[] {
  const files = rooms.flatMap((room) =>
    readdirSync(new URL(room, root), { recursive: true, encoding: 'utf8' }).map(
      (name) => `${room}/${name}`,
    ),
  );
  return files
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => protectionsIn(file, readFileSync(new URL(file, root), 'utf8')));
}

/** The marked statements of a file, as the formatter lays statements out. */
export function protectionsIn(file: string, content: string): MarkedProtection[] {
  const lines = content.split('\n');
  return lines.flatMap((line, index) => {
    const [, indent, name] = marker.exec(line) ?? [];
    if (indent === undefined || name === undefined) return [];
    const rest = lines.slice(index + 2);
    const end = rest.findIndex((next) => next !== '' && !isOfSameStatement(next, indent));
    const statement = lines.slice(index, index + 2 + (end < 0 ? rest.length : end)).join('\n');
    return [{ name, file, text: `${statement.trimEnd()}\n` }];
  });
}

/** Later lines of a statement are indented more, or close what the statement opened. */
function isOfSameStatement(line: string, indent: string): boolean {
  if (!line.startsWith(indent)) return false;
  return /^[ })\]]/.test(line.slice(indent.length));
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

function parse(fileName: string, text: string, marked: readonly MarkedProtection[]): Mutation {
  const name = fileName.replace(/\.(patch|mutation)$/, '');
  const start = text.indexOf('--- a/');
  const head = (start < 0 ? text : text.slice(0, start)).split('\n');
  const valuesOf = (field: string): string[] =>
    head
      .filter((line) => line.startsWith(`${field}: `))
      .map((line) => line.slice(field.length + 2));
  const [rows = ''] = valuesOf('Rows');
  const [what = ''] = valuesOf('What');
  const [test = ''] = valuesOf('Test');
  const red = valuesOf('Red');
  const hunks =
    start < 0
      ? marksOf(head).map((mark) => withoutProtection(marked, mark))
      : text
          .slice(start)
          .split(/^--- a\//m)
          .slice(1)
          .flatMap(hunksOf);
  if (!rows || !what || !test || red.length === 0 || hunks.length === 0) {
    throw new Error(`${name}: not a mutation`);
  }
  return { name, rows: rows.split(', '), what, test, red, hunks };
}

/** A marked protection that a mutation names, and what takes its place. */
interface Mark {
  readonly name: string;
  readonly instead: string[];
}

/** Each `Protection:` line with the `Instead:` lines below it. */
function marksOf(head: readonly string[]): Mark[] {
  const marks: Mark[] = [];
  for (const line of head) {
    if (line.startsWith('Protection: ')) {
      marks.push({ name: line.slice('Protection: '.length), instead: [] });
    }
    if (line.startsWith('Instead: ')) marks.at(-1)?.instead.push(line.slice('Instead: '.length));
  }
  return marks;
}

/**
 * @throws Error where the name is marked nowhere, or more than once, or where a word of what takes
 * the statement's place is no longer in its file
 */
function withoutProtection(marked: readonly MarkedProtection[], { name, instead }: Mark): Hunk {
  const [found, ...others] = marked.filter((protection) => protection.name === name);
  if (found === undefined || others.length > 0) {
    throw new Error(
      `protection ${name} is marked ${found ? others.length + 1 : 0} times, not once`,
    );
  }
  const content = readFileSync(new URL(found.file, root), 'utf8');
  const unknown = namesIn(instead.join('\n')).find((word) => !content.includes(word));
  if (unknown !== undefined) {
    throw new Error(`${name}: what takes its place says ${unknown}, which ${found.file} does not`);
  }
  const after = instead.map((line) => `${line}\n`).join('');
  return { file: found.file, before: found.text, after };
}

/** Names in code that must come from its file: no members, keys, globals, nor what it declares itself. */
function namesIn(code: string): string[] {
  const plain = code.replaceAll(/'[^'\n]*'|`[^`\n]*`/g, '');
  const names = plain.match(/(?<![.\p{L}\p{N}_$])[\p{L}_$][\p{L}\p{N}_$]*(?!\s*:)\b/gu) ?? [];
  return names.filter(
    (name) => !keywords.has(name) && !(name in globalThis) && !plain.includes(`const ${name} =`),
  );
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

/**
 * A program: takes protections out one by one, and sees that the tests that show them turn red, which
 * are green before. It works in copies, two at a time; arguments are names of mutations, without them
 * all. Exit code 1 when a test that a mutation names was not red, or not green before.
 */
import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { applied, isTitle, type Mutation, readMutations } from './mutation.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Is not the repository's, or is linked. */
const leftOut: ReadonlySet<string> = new Set([
  '.ci',
  '.git',
  '.node',
  'coverage',
  'dist',
  'node_modules',
  'temp',
]);

/** What a run of one file of tests says. */
interface Outcome {
  readonly passed: readonly string[];
  /** With what AVA says of each behind its title; those that had not ended in time are among them. */
  readonly failed: readonly string[];
}

/** A copy of the repository, in which files are changed and restored. */
class Copy {
  readonly #directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-mutate-'));

  constructor() {
    for (const name of readdirSync(root).filter((it) => !leftOut.has(it))) {
      cpSync(path.join(root, name), path.join(this.#directory, name), { recursive: true });
    }
    symlinkSync(path.join(root, 'node_modules'), path.join(this.#directory, 'node_modules'));
  }

  /** The outcome of a mutation's tests with the protection taken out. */
  async with(mutation: Mutation): Promise<Outcome> {
    const spoiled = new Set(mutation.hunks.map(({ file }) => file));
    const originals = new Map([...spoiled].map((file) => [file, this.#read(file)]));
    try {
      for (const [file, content] of originals) {
        this.#write(file, applied(mutation, file, content));
      }
      return await this.test(mutation.test, mutation.red);
    } finally {
      for (const [file, content] of originals) this.#write(file, content);
    }
  }

  /** The outcome of the named tests of a file, as the copy is now. */
  async test(file: string, titles: readonly string[]): Promise<Outcome> {
    const program = path.join(root, 'node_modules', 'ava', 'entrypoints', 'cli.mjs');
    const named = titles.map((title) => `--match=${patternOf(title)}`);
    return readReport(await this.#run([program, '--no-worker-threads', ...named, file]));
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #run(arguments_: readonly string[]): Promise<string> {
    const options = { cwd: this.#directory, maxBuffer: 64 * 1024 * 1024 };
    return new Promise((resolve) => {
      execFile(process.execPath, [...arguments_], options, (_error, stdout) => resolve(stdout));
    });
  }

  #read(file: string): string {
    return readFileSync(path.join(this.#directory, file), 'utf8');
  }

  #write(file: string, content: string): void {
    writeFileSync(path.join(this.#directory, file), content);
  }
}

/** A title as it is written, `${…}` not filled in, as AVA's option takes it. */
function patternOf(title: string): string {
  return title.replaceAll(/[\\*!]/g, '\\$&').replaceAll(/\$\{[^}]*\}/g, '*');
}

/** AVA's own report: its TAP ends early when a test runs out of time. */
function readReport(report: string): Outcome {
  const lines = report.split('\n');
  const behind = (mark: RegExp): string[] =>
    lines.flatMap((line) => (mark.test(line) ? [line.replace(mark, '')] : []));
  return {
    passed: behind(/^ {2}✔ /).map((title) => title.replace(/ \((\d[\d.]*(ms|s|m) ?)+\)$/, '')),
    failed: behind(/^ {2}(✘ \[fail\]:|◌) /),
  };
}

/** What is wrong with an outcome; empty: the mutation was noticed. */
function problemsOf({ red }: Mutation, { passed, failed }: Outcome): string[] {
  const unnoticed = red.filter(
    (written) =>
      passed.some((title) => isTitle(written, title)) ||
      !failed.some((line) => isTitle(`${written}\${message}`, line)),
  );
  return unnoticed.map((title) => `not red: ${title}`);
}

/** One thing to do in a copy. */
type Task = (copy: Copy) => Promise<Report>;

interface Report {
  readonly what: string;
  /** None: it is as it should be. */
  readonly problems: readonly string[];
}

/** Without a mutation the tests that it names must be green, or their red says nothing. */
function unspoiled(file: string, mutations: readonly Mutation[]): Task {
  const titles = [...new Set(mutations.flatMap(({ red }) => red))];
  return async (copy) => {
    const { passed, failed } = await copy.test(file, titles);
    const missing = titles.filter((written) => !passed.some((title) => isTitle(written, title)));
    const problems = [...failed, ...missing.map((title) => `did not pass: ${title}`)];
    return { what: `${''.padEnd(14)} ${file} without any mutation`, problems };
  };
}

function spoiled(mutation: Mutation): Task {
  return async (copy) => {
    const { name, rows, what } = mutation;
    const problems = await problemsIn(copy, mutation);
    return { what: `${rows.join(' ').padEnd(14)} ${what} (${name})`, problems };
  };
}

/** A mutation whose place is not found is a problem like others, and the rest runs. */
async function problemsIn(copy: Copy, mutation: Mutation): Promise<readonly string[]> {
  try {
    return problemsOf(mutation, await copy.with(mutation));
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

/** @returns how many tasks had problems */
async function work(copy: Copy, queue: Task[]): Promise<number> {
  let failures = 0;
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    const { what, problems } = await task(copy);
    print(`${problems.length === 0 ? 'ok    ' : 'FAILED'}  ${what}`);
    for (const problem of problems) print(`        ${problem}`);
    if (problems.length > 0) failures += 1;
  }
  return failures;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const wanted = process.argv.slice(2);
const mutations = readMutations().filter(
  ({ name }) => wanted.length === 0 || wanted.includes(name),
);
const copies = [new Copy(), new Copy()];
try {
  const files = [...new Set(mutations.map(({ test }) => test))];
  const queue = [
    ...files.map((file) =>
      unspoiled(
        file,
        mutations.filter(({ test }) => test === file),
      ),
    ),
    ...mutations.map(spoiled),
  ];
  const failures = await Promise.all(copies.map((copy) => work(copy, queue)));
  const total = failures.reduce((sum, count) => sum + count, 0);
  print(`${mutations.length} protections taken out, ${total} problems`);
  process.exitCode = total === 0 && mutations.length > 0 ? 0 : 1;
} finally {
  for (const copy of copies) copy.remove();
}

/**
 * A program that removes protections one by one, and checks that the tests named for each then
 * fail. These tests must pass before. It works in copies of the repository, two for each processor,
 * because many of the tests wait for something that the mutation prevents.
 * Arguments: names of mutations; default: all. The exit code is 1 if a named test did not fail with
 * the mutation, or did not pass without it.
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
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { applied, isTitle, type Mutation, readMutations } from './mutation.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Files that are not copied, because they are not part of the repository or are linked instead. */
const leftOut: ReadonlySet<string> = new Set([
  '.ci',
  '.git',
  '.node',
  'coverage',
  'dist',
  'node_modules',
  'temp',
]);

/** Result of running one test file. */
interface Outcome {
  readonly passed: readonly string[];
  /**
   * Titles of failed tests, each followed by AVA's report. Tests that ran out of time are included.
   */
  readonly failed: readonly string[];
  /** Titles of skipped tests. Each names the program that this machine lacks. */
  readonly skipped: readonly string[];
}

/** A copy of the repository in which files can be changed and restored. */
class Copy {
  readonly #directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-mutate-'));

  constructor() {
    for (const name of readdirSync(root).filter((it) => !leftOut.has(it))) {
      cpSync(path.join(root, name), path.join(this.#directory, name), { recursive: true });
    }
    symlinkSync(path.join(root, 'node_modules'), path.join(this.#directory, 'node_modules'));
  }

  /** Runs the tests of a mutation with the protection removed. */
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

  /** Runs the named tests of a file in the current state of the copy. */
  async test(file: string, titles: readonly string[]): Promise<Outcome> {
    const program = path.join(root, 'node_modules', 'ava', 'entrypoints', 'cli.mjs');
    // The title of a skipped test also says what the test needs.
    const named = titles
      .flatMap((title) => [title, `${title} (needs \${program})`])
      .map((title) => `--match=${patternOf(title)}`);
    return readReport(await this.#run([program, '--no-worker-threads', ...named, file]));
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #run(arguments_: readonly string[]): Promise<string> {
    const env = { ...process.env, TEST_WAIT_MS: '30000' };
    const options = { cwd: this.#directory, maxBuffer: 64 * 1024 * 1024, env };
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

/** Converts a title to a pattern for AVA's option. `${…}` in the title matches anything. */
function patternOf(title: string): string {
  return title.replaceAll(/[\\*!]/g, '\\$&').replaceAll(/\$\{[^}]*\}/g, '*');
}

/**
 * Parses AVA's own report. Its TAP output is not used, because it ends early if a test runs out of
 * time.
 */
function readReport(report: string): Outcome {
  const lines = report.split('\n');
  const behind = (mark: RegExp): string[] =>
    lines.flatMap((line) => (mark.test(line) ? [line.replace(mark, '')] : []));
  return {
    passed: behind(/^ {2}✔ /).map((title) => title.replace(/ \((\d[\d.]*(ms|s|m) ?)+\)$/, '')),
    failed: behind(/^ {2}(✘ \[fail\]:|◌) /),
    skipped: behind(/^ {2}- \[skip\] /),
  };
}

/** Judges the tests of a mutation. They must have failed. */
function judgeSpoiled({ red }: Mutation, { passed, failed, skipped }: Outcome): Findings {
  const unnoticed = red.filter(
    (written) =>
      passed.some((title) => isTitle(written, title)) ||
      !failed.some((line) => isTitle(`${written}\${message}`, line)),
  );
  return findingsOf('not red', unnoticed, skipped);
}

/** Separates titles of skipped tests from other titles. */
function findingsOf(
  problem: string,
  titles: readonly string[],
  skipped: readonly string[],
): Findings {
  const isSkipped = (title: string): boolean =>
    skipped.some((line) => isTitle(`${title} (needs \${program})`, line));
  const others = titles.filter((title) => !isSkipped(title));
  return {
    problems: others.map((title) => `${problem}: ${title}`),
    skipped: titles.filter(isSkipped),
  };
}

/** A task that runs in a copy. */
type Task = (copy: Copy) => Promise<Report>;

interface Findings {
  /** Problems that were found. Empty if the result is as expected. */
  readonly problems: readonly string[];
  /** Titles of tests that this machine cannot run. */
  readonly skipped: readonly string[];
}

interface Report extends Findings {
  readonly what: string;
}

/**
 * Returns a task that runs the tests without any mutation. They must pass; otherwise their failure
 * with a mutation proves nothing.
 */
function unspoiled(file: string, mutations: readonly Mutation[]): Task {
  const titles = [...new Set(mutations.flatMap(({ red }) => red))];
  return async (copy) => {
    const { passed, failed, skipped } = await copy.test(file, titles);
    const missing = titles.filter((written) => !passed.some((title) => isTitle(written, title)));
    const findings = findingsOf('did not pass', missing, skipped);
    const what = `${''.padEnd(14)} ${file} without any mutation`;
    return { what, ...findings, problems: [...failed, ...findings.problems] };
  };
}

function spoiled(mutation: Mutation): Task {
  return async (copy) => {
    const { name, rows, what } = mutation;
    const findings = await findingsIn(copy, mutation);
    return { what: `${rows.join(' ').padEnd(14)} ${what} (${name})`, ...findings };
  };
}

/**
 * Returns the findings of a mutation. If its patch cannot be applied, this is reported as a problem
 * and the other mutations still run.
 */
async function findingsIn(copy: Copy, mutation: Mutation): Promise<Findings> {
  try {
    return judgeSpoiled(mutation, await copy.with(mutation));
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    return { problems: [problem], skipped: [] };
  }
}

/** Runs tasks in a copy until the queue is empty, and returns their reports. */
async function work(copy: Copy, queue: Task[]): Promise<readonly Report[]> {
  const reports: Report[] = [];
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    const report = await task(copy);
    const { what, problems, skipped } = report;
    const result = skipped.length === 0 ? 'ok    ' : 'skip  ';
    print(`${problems.length === 0 ? result : 'FAILED'}  ${what}`);
    for (const title of skipped) print(`        skipped: ${title}`);
    for (const problem of problems) print(`        ${problem}`);
    reports.push(report);
  }
  return reports;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const wanted = process.argv.slice(2);
const mutations = readMutations().filter(
  ({ name }) => wanted.length === 0 || wanted.includes(name),
);
const copies = Array.from({ length: 2 * availableParallelism() }, () => new Copy());
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
  const reports = (await Promise.all(copies.map((copy) => work(copy, queue)))).flat();
  const failures = reports.filter(({ problems }) => problems.length > 0).length;
  const skips = reports.filter(({ skipped }) => skipped.length > 0).length;
  print(`${mutations.length} protections taken out, ${failures} problems, ${skips} skipped`);
  process.exitCode = failures === 0 && mutations.length > 0 ? 0 : 1;
} finally {
  for (const copy of copies) copy.remove();
}

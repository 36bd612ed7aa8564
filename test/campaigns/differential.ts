/** Sends random input to real Salts and to this master. Every difference is reported. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { makeCase, type Question, surroundings } from './differential/cases.ts';
import { explanationOf } from './differential/explained.ts';
import { type Answer, Ours } from './differential/ours.ts';

const program = fileURLToPath(new URL('./differential/reference.py', import.meta.url));

/** Number of cases that are sent to Salt in advance. */
const ahead = 32;

/** A Python process that imports Salt and answers cases in order. */
class Reference {
  readonly name: string;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #answers: AsyncIterator<string>;

  constructor(python: string, directory: string) {
    this.name = python;
    mkdirSync(directory);
    this.#child = spawn(python, [program, directory]);
    this.#child.stderr.resume();
    this.#write(surroundings);
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  ask(it: Question): void {
    this.#write(it);
  }

  #write(line: object): void {
    this.#child.stdin.write(`${JSON.stringify(line)}\n`);
  }

  async answer(): Promise<Answer> {
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error(`${this.name} ended before its last answer`);
    return JSON.parse(value);
  }

  close(): void {
    this.#child.kill();
  }
}

/**
 * Compares this master with the Salts in SALT_PYTHON. This variable is a comma-separated list of
 * programs that run Python with Salt in its path. If a file name is given, cases that all of them
 * answer alike are appended to the file. Tests without a Salt use them.
 * @returns 1 if an answer differs without an explanation
 */
export async function runDifferential(
  [
    seed = String(Date.now() % 1_000_000),
    count = '10000',
    first = '0',
    record = '',
  ]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const pythons = (process.env.SALT_PYTHON ?? '').split(',').filter((it) => it !== '');
  if (pythons.length === 0) {
    print('SALT_PYTHON names no Python that imports Salt');
    return 2;
  }
  print(`differential ${seed} ${count} ${first}`);
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-differential-'));
  const references = pythons.map(
    (python, index) => new Reference(python, path.join(directory, `salt-${index}`)),
  );
  const ours = new Ours(path.join(directory, 'ours'));
  const counts = new Map<string, number>();
  const add = (name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);
  let findings = 0;
  try {
    const start = Number(first);
    const end = start + Number(count);
    let asked = start;
    for (let number = start; number < end; number += 1) {
      for (; asked < Math.min(end, number + ahead); asked += 1) {
        const next = makeCase(Number(seed), asked);
        for (const reference of references) reference.ask(next);
      }
      const it = makeCase(Number(seed), number);
      const mine = await ours.answer(it);
      const answers: Answer[] = [];
      for (const reference of references) {
        const theirs = await reference.answer();
        answers.push(theirs);
        const verdict = judge(it, mine, theirs);
        add(`${it.kind} ${verdict}`);
        if (verdict !== 'differs') continue;
        findings += 1;
        print(JSON.stringify({ number, by: reference.name, ...it, mine, theirs }));
      }
      if (record !== '') appendVector(record, it, mine, answers);
    }
  } finally {
    for (const reference of references) reference.close();
    await ours.close();
    rmSync(directory, { recursive: true, force: true });
  }
  for (const [name, total] of [...counts].sort()) print(`${name.padEnd(48)} ${total}`);
  return findings === 0 ? 0 : 1;
}

function appendVector(file: string, it: Question, mine: Answer, answers: readonly Answer[]): void {
  const [first, ...others] = answers.map(({ value }) => value);
  if (first === undefined || others.some((value) => value !== first) || mine.value !== first)
    return;
  appendFileSync(file, `${JSON.stringify({ ...it, value: first })}\n`);
}

/** Sorts the names of failed requisites, which Salt takes from a set. */
function sorted(value: string | undefined): string | undefined {
  return value?.replaceAll(/(?<=One or more requisite failed: )[^"\\]*/g, (names) =>
    names.split(', ').sort().join(', '),
  );
}

function judge(it: Question, mine: Answer, theirs: Answer): string {
  if (mine.value !== undefined && sorted(mine.value) === sorted(theirs.value)) return 'same value';
  if (mine.error !== undefined && theirs.error !== undefined) return 'both fail';
  return explanationOf(it, mine, theirs) ?? 'differs';
}

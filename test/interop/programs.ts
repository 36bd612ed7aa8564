/**
 * The real programs that the tests run against. They are found through the environment alone:
 * `SALT_MINION` lists paths of `salt-minion` programs, separated by commas; `SALT_MASTER` those of
 * `salt-master`, with `salt` and `salt-key` beside each.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';

/** The minions to test against; empty where none is named. */
export const minionPrograms: readonly string[] = listed('SALT_MINION');

/** The masters to migrate from; empty where none is named. */
export const masterPrograms: readonly string[] = listed('SALT_MASTER');

/** `3006.16`, as the program says itself. */
export async function versionOf(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ['--version']);
  return /\d+(\.\d+)*/.exec(stdout)?.[0] ?? 'unknown';
}

/** A step of a file whose steps build on one another. */
export type Step = (title: string, run: (t: ExecutionContext) => Promise<void>) => void;

/**
 * Declares steps that need real programs: one after the other, five minutes for each. Without
 * the programs each is skipped, with the reason in its title.
 * @param needs variables of the environment that must name a program
 */
export function steps(...needs: readonly ('SALT_MINION' | 'SALT_MASTER')[]): Step {
  const missing = needs.filter((name) => listed(name).length === 0);
  if (missing.length > 0) {
    return (title, run) => test.serial.skip(`${title} (skipped: ${missing.join()} not set)`, run);
  }
  return (title, run) =>
    test.serial(title, async (t) => {
      t.timeout(300_000);
      await run(t);
    });
}

function listed(name: string): string[] {
  return (process.env[name] ?? '')
    .split(',')
    .map((program) => program.trim())
    .filter((program) => program !== '');
}

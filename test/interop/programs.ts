/**
 * The real programs with which the tests run. They are named only by environment variables.
 * `SALT_MINION` lists paths of `salt-minion` programs, separated by commas. `SALT_MASTER` lists
 * those of `salt-master`, with `salt` and `salt-key` in the same directory. `SALT_PROXY` lists
 * those of `salt-proxy`. `SALT_EXAMPLE_CONFIG` may name the example configuration of a master from
 * Salt's sources.
 */
import { readFileSync } from 'node:fs';
import test from 'ava';
import { type Declare, testWhere } from '../helpers/needs.ts';
import { versionOf } from './program-version.ts';

/** Programs of minions. Empty if none are named. */
export const minionPrograms: readonly string[] = listed('SALT_MINION');

/** Programs of masters from which to migrate. Empty if none are named. */
export const masterPrograms: readonly string[] = listed('SALT_MASTER');

/** Programs of proxy minions. Empty if none are named. */
export const proxyPrograms: readonly string[] = listed('SALT_PROXY');

/** Returns the text of the example configuration. Empty if none is named. */
export function exampleConfig(): string {
  const file = process.env.SALT_EXAMPLE_CONFIG ?? '';
  return file === '' ? '' : readFileSync(file, 'utf8');
}

/** Returns the {@link minionPrograms} whose release, as a number such as 3006.16, is accepted. */
export async function minionProgramsOf(
  accepts: (release: number) => boolean,
): Promise<readonly string[]> {
  const versions = await Promise.all(minionPrograms.map(versionOf));
  return minionPrograms.filter((_program, index) =>
    accepts(Number.parseFloat(versions[index] ?? '')),
  );
}

/** Returns the {@link minionPrograms} whose RSA algorithms can be configured. */
export async function fipsPrograms(): Promise<readonly string[]> {
  const versions = await Promise.all(minionPrograms.map(versionOf));
  return minionPrograms.filter((_program, index) => choosesAlgorithms(versions[index] ?? ''));
}

/**
 * Whether a release has the option `encryption_algorithm`. The first ones were 3006.9 and 3007.2.
 */
function choosesAlgorithms(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 3006) return minor >= 9;
  return major === 3007 ? minor >= 2 : major > 3007;
}

/**
 * Declares steps that need real programs. They are serial and may take five minutes each. Without
 * the programs, each step is skipped, with the reason in its title.
 * @param needs - environment variables that must name a program
 */
export function steps(
  ...needs: readonly ('SALT_MINION' | 'SALT_MASTER' | 'SALT_PROXY')[]
): Declare {
  const missing = needs.filter((name) => listed(name).length === 0);
  if (missing.length > 0) {
    return testWhere(false, missing.join(' and '));
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

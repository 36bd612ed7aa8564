/**
 * The real programs that the tests run against. They are found through the environment alone:
 * `SALT_MINION` lists paths of `salt-minion` programs, separated by commas; `SALT_MASTER` those of
 * `salt-master`, with `salt` and `salt-key` beside each; `SALT_PROXY` those of `salt-proxy`. `SALT_EXAMPLE_CONFIG` may name the example
 * of a master's configuration that comes with Salt.
 */
import { readFileSync } from 'node:fs';
import test from 'ava';
import { type Declare, testWhere } from '../helpers/needs.ts';
import { versionOf } from './program-version.ts';

/** The minions to test against; empty where none is named. */
export const minionPrograms: readonly string[] = listed('SALT_MINION');

/** The masters to migrate from; empty where none is named. */
export const masterPrograms: readonly string[] = listed('SALT_MASTER');

/** The proxy minions to test against; empty where none is named. */
export const proxyPrograms: readonly string[] = listed('SALT_PROXY');

/** The main configuration file of masters to migrate from; empty where none is named. */
export function exampleConfig(): string {
  const file = process.env.SALT_EXAMPLE_CONFIG ?? '';
  return file === '' ? '' : readFileSync(file, 'utf8');
}

/** Those of {@link minionPrograms} whose release, as a number (3006.16), is one of these. */
export async function minionProgramsOf(
  accepts: (release: number) => boolean,
): Promise<readonly string[]> {
  const versions = await Promise.all(minionPrograms.map(versionOf));
  return minionPrograms.filter((_program, index) =>
    accepts(Number.parseFloat(versions[index] ?? '')),
  );
}

/** Those of {@link minionPrograms} that can be told which algorithms of RSA to use. */
export async function fipsPrograms(): Promise<readonly string[]> {
  const versions = await Promise.all(minionPrograms.map(versionOf));
  return minionPrograms.filter((_program, index) => choosesAlgorithms(versions[index] ?? ''));
}

/** The first releases with `encryption_algorithm` were 3006.9 and 3007.2. */
function choosesAlgorithms(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 3006) return minor >= 9;
  return major === 3007 ? minor >= 2 : major > 3007;
}

/**
 * Declares steps that need real programs: one after the other, five minutes for each. Without
 * the programs each is skipped, with the reason in its title.
 * @param needs variables of the environment that must name a program
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

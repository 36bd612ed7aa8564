/** Tests of what only some machines have. */
import test, { type ExecutionContext } from 'ava';

/** Declares a test. */
export type Declare = (title: string, run: (t: ExecutionContext) => Promise<void> | void) => void;

/**
 * Declares tests where what they need is there; elsewhere they are skipped, and `.ci/run` counts
 * them by what the machine lacks.
 * @param needs a package, a program or a variable of the environment, as in `the package slapd`
 * @param declare how, where it is there
 */
export function testWhere(isThere: boolean, needs: string, declare: Declare = test): Declare {
  if (isThere) return declare;
  return (title, run) => test.skip(`${title} (needs ${needs})`, run);
}

/** Declares tests that need programs, packages or variables that not every machine has. */
import test, { type ExecutionContext } from 'ava';

/** Function that declares a test. */
export type Declare = (title: string, run: (t: ExecutionContext) => Promise<void> | void) => void;

/**
 * Returns a function that declares tests. If the requirement is missing, the tests are skipped, and
 * `.ci/run` counts them by this requirement.
 * @param needs - name of the package, program or environment variable, for example `the package
 * slapd`
 * @param declare - declares a test that is not skipped
 */
export function testWhere(isThere: boolean, needs: string, declare: Declare = test): Declare {
  if (isThere) return declare;
  return (title, run) => test.skip(`${title} (needs ${needs})`, run);
}

/** Runs the examples as tests, if the programs that they need are installed. */
import test from 'ava';
import { type Example, printedStep } from '../../examples/example.ts';
import { type Declare, testWhere } from './needs.ts';

/**
 * Returns a function that declares a test, which is skipped if the example cannot run here.
 * @param declare - declares a test; default: one that runs serially, because examples are large
 */
export function whereRunnable(example: Example, declare: Declare = test.serial): Declare {
  const missing = example.needs().filter(({ isThere }) => !isThere);
  const names = missing.map(({ name }) => name).join(' and ');
  return testWhere(missing.length === 0, names, declare);
}

/**
 * Runs an example.
 * @returns the titles of its steps
 */
export async function stepsOf(example: Example): Promise<readonly string[]> {
  const titles: string[] = [];
  await example.run(async (title, work, isRight) => {
    const value = await printedStep(title, work, isRight);
    titles.push(title);
    return value;
  });
  return titles;
}

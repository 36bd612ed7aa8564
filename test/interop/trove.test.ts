/** `npm run example -- trove` and `trove-heat`: real minions, real MariaDB servers, a real Heat. */
import test from 'ava';
import { type Example, printedStep } from '../../examples/example.ts';
import { troveHeat } from '../../examples/trove/heat.example.ts';
import { trove } from '../../examples/trove/trove.example.ts';
import { type Declare, testWhere } from '../helpers/needs.ts';

/** Declares a test where the example has what it needs. One after the other: they are large. */
function where(example: Example): Declare {
  const missing = example.needs().filter(({ isThere }) => !isThere);
  const names = missing.map(({ name }) => name).join(' and ');
  return testWhere(missing.length === 0, names, test.serial);
}

/** Runs an example. @returns the titles of its steps */
async function titlesOf(example: Example): Promise<readonly string[]> {
  const titles: string[] = [];
  await example.run(async (title, work, isRight) => {
    const value = await printedStep(title, work, isRight);
    titles.push(title);
    return value;
  });
  return titles;
}

test('the example names what it needs, and where it comes from', (t) => {
  const needs = trove.needs();
  t.true(needs.some(({ name }) => name === 'variable SALT_MINION'));
  t.true(needs.some(({ name, remedy }) => name === 'program mariadbd' && /Debian/.test(remedy)));
});

where(trove)('each step of examples/trove shows what it should', async (t) => {
  t.timeout(300_000);
  const titles = await titlesOf(trove);
  t.true(titles.includes('no password is in any event, job, log or file'));
});

where(troveHeat)('a stack of Heat ends in a database that its user can log in to', async (t) => {
  t.timeout(300_000);
  const titles = await titlesOf(troveHeat);
  t.true(titles.includes('the stack is complete, and the user of its template can log in'));
});

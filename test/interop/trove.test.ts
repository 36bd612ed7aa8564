/**
 * Runs `npm run example -- trove` and `trove-heat` with real minions, real MariaDB servers and a
 * real Heat.
 */
import test from 'ava';
import { troveHeat } from '../../examples/trove/heat.example.ts';
import { trove } from '../../examples/trove/trove.example.ts';
import { stepsOf, whereRunnable } from '../helpers/examples.ts';

test('the example of Trove names what it needs, and where it comes from', (t) => {
  const needs = trove.needs();
  t.true(needs.some(({ name }) => name === 'variable SALT_MINION'));
  t.true(needs.some(({ name, remedy }) => name === 'program mariadbd' && /Debian/.test(remedy)));
});

whereRunnable(trove)('each step of examples/trove shows what it should', async (t) => {
  t.timeout(300_000);
  const titles = await stepsOf(trove);
  t.true(titles.includes('no event, job, log or file contains a password'));
});

whereRunnable(troveHeat)(
  'a stack of Heat ends in a database that its user can log in to',
  async (t) => {
    t.timeout(300_000);
    const titles = await stepsOf(troveHeat);
    t.true(titles.includes('the stack is complete, and the user from its template can log in'));
  },
);

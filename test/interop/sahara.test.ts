/** Runs `npm run example -- sahara` with real minions and a cluster of real processes. */
import test from 'ava';
import { sahara } from '../../examples/sahara/sahara.example.ts';
import { stepsOf, whereRunnable } from '../helpers/examples.ts';

test('the example of Sahara names its requirements and where to get them', (t) => {
  const needs = sahara.needs();
  t.true(needs.some(({ name }) => name === 'variable SALT_MINION'));
  t.true(needs.some(({ name, remedy }) => name === 'program python3' && /Debian/.test(remedy)));
});

whereRunnable(sahara)('each step of examples/sahara shows what it should', async (t) => {
  t.timeout(300_000);
  const titles = await stepsOf(sahara);
  t.true(titles.includes('the next job also runs on the new node'));
});

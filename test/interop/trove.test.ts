/** `npm run example -- trove`: real minions, real MariaDB servers. */
import test from 'ava';
import { printedStep } from '../../examples/example.ts';
import { trove } from '../../examples/trove/trove.example.ts';
import { testWhere } from '../helpers/needs.ts';

const missing = trove.needs().filter(({ isThere }) => !isThere);
const step = testWhere(missing.length === 0, missing.map(({ name }) => name).join(' and '));

test('the example names what it needs, and where it comes from', (t) => {
  const needs = trove.needs();
  t.true(needs.some(({ name }) => name === 'variable SALT_MINION'));
  t.true(needs.some(({ name, remedy }) => name === 'program mariadbd' && /Debian/.test(remedy)));
});

step('each step of examples/trove shows what it should', async (t) => {
  t.timeout(300_000);
  const done: string[] = [];
  await trove.run(async (title, work, isRight) => {
    const value = await printedStep(title, work, isRight);
    done.push(title);
    return value;
  });
  t.true(done.includes('no password is in any event, job, log or file'));
});

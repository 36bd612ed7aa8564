/** Limits of the arguments in a minion's request for a job. */

import test from 'ava';
import { readCalls } from '#salt/peers/peer-call.ts';

const by = {
  minionId: 'web1',
  reader: { readWords: async (_owner: string, arg: readonly string[]) => ({ arg, kwarg: {} }) },
};
const funs = ['test.arg', 'test.arg', 'test.arg'];

function words(count: number): string {
  return ` ${'x '.repeat(count)}`;
}

test('the arguments of several functions have a limited number of words', async (t) => {
  const calls = await readCalls(funs, { arg: [words(8000), words(8000), words(4000)] }, by);
  t.deepEqual(
    calls?.map(({ arg }) => arg.length),
    [8000, 8000, 4000],
  );
  const arg = [words(8000), words(8000), words(4001)];
  t.is(await readCalls(funs, { arg }, by), undefined);
});

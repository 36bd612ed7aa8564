/** Long lists are sorted in slices. */

import test from 'ava';
import { maxSliceSteps, sortInSlices, unlimitedSteps, WorkBudget } from '#runtime';
import { slicesOf } from '../helpers/slices.ts';

const budget = (): WorkBudget => new WorkBudget(unlimitedSteps);
const itself = (text: string): string => text;

test('the order is that of Array.prototype.sort, for any length', async (t) => {
  for (const length of [0, 1, 2, 999, 1000, 1001, 2500, 8192]) {
    const texts = Array.from(
      { length },
      (_, at) => `${'aé\u{1F600}b'[at % 5] ?? ''}${(at * 7919) % 997}`,
    );
    t.deepEqual(await sortInSlices(texts, itself, budget()), [...texts].sort());
    t.deepEqual(await sortInSlices(texts.toSorted(), itself, budget()), [...texts].sort());
  }
});

test('items with equal texts keep their order', async (t) => {
  const items = Array.from({ length: 5000 }, (_, at) => ({ text: `${at % 7}`, at }));
  const sorted = await sortInSlices(items, ({ text }) => text, budget());
  t.deepEqual(
    sorted,
    items.toSorted((a, b) => a.text.localeCompare(b.text) || a.at - b.at),
  );
});

test.serial('a list of 100,000 texts is sorted in slices', async (t) => {
  const texts = Array.from({ length: 100_000 }, (_, at) => `dir/${(at * 7919) % 100_003}`);
  const slices = await slicesOf(() => sortInSlices(texts, itself, budget()));
  t.true(slices.length >= 100, `${slices.length}`);
  t.true(
    slices.every((steps) => steps <= 1.5 * maxSliceSteps),
    `${slices}`,
  );
});

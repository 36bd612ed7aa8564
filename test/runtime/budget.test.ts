import test from 'ava';
import { Budget, releaseAll, tryTakeAll } from '#runtime';
import { testLimit } from '../helpers/limits.ts';

/** Takes as much as possible for an owner. */
function fill(budget: Budget, owner: string): number {
  while (budget.tryTake(owner));
  return budget.heldBy(owner);
}

test('an owner may hold a multiple of the free amount, and new owners find a share', (t) => {
  const budget = new Budget(testLimit({ total: 1_200, timesFree: 1 }));
  t.deepEqual(
    ['a', 'b', 'c', 'a'].map((owner) => fill(budget, owner)),
    [600, 300, 150, 600],
  );
  // What the first owner returns is shared.
  budget.release('a', 600);
  t.deepEqual(
    ['b', 'c', 'a'].map((owner) => fill(budget, owner) > 150),
    [true, true, true],
  );
  const most = new Budget(testLimit({ total: 1_200, timesFree: 3 }));
  t.is(fill(most, 'a'), 900);
  t.false(most.tryTake('b', 301));
  t.true(most.tryTake('b', 200));
});

test('amounts of several budgets are taken together, or none is', (t) => {
  const calls = new Budget(testLimit({ perOwner: 2 }));
  const bytes = new Budget(testLimit({ perOwner: 100 }));
  const parts = (amount: number) => [
    { budget: calls, owner: 'a', amount: 1, name: 'calls' },
    { budget: bytes, owner: 'a', amount, name: 'bytes' },
  ];
  t.is(tryTakeAll(parts(60)), undefined);
  t.is(tryTakeAll(parts(60))?.name, 'bytes');
  t.deepEqual([calls.heldBy('a'), bytes.heldBy('a')], [1, 60]);
  t.is(tryTakeAll(parts(40)), undefined);
  t.is(tryTakeAll(parts(0))?.name, 'calls');
  releaseAll(parts(60));
  t.deepEqual([calls.heldBy('a'), bytes.heldBy('a')], [1, 40]);
});

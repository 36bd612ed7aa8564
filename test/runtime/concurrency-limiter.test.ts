import test from 'ava';
import { ConcurrencyLimiter, type TurnTaker } from '../../runtime/index.ts';

test('however many are done with their turns at once, each gets one, and none inside the other', (t) => {
  const turns = new ConcurrencyLimiter(1);
  const served: number[] = [];
  let depth = 0;
  let deepest = 0;
  const takers = Array.from(
    { length: 30_000 },
    (_, index): TurnTaker => ({
      startRequests: () => {
        if (!turns.tryTake(takers[index] ?? { startRequests: () => {} })) return;
        depth += 1;
        deepest = Math.max(deepest, depth);
        served.push(index);
        turns.giveBack();
        depth -= 1;
      },
    }),
  );
  t.true(turns.tryTake({ startRequests: () => {} }));
  for (const taker of takers) taker.startRequests();
  t.deepEqual(served, []);
  turns.giveBack();
  t.is(served.length, takers.length);
  t.deepEqual(served.slice(0, 3), [0, 1, 2]);
  t.is(deepest, 1);
});

test('one that leaves gets no turn', (t) => {
  const turns = new ConcurrencyLimiter(1);
  let started = 0;
  const taker: TurnTaker = { startRequests: () => (started += 1) };
  turns.tryTake({ startRequests: () => {} });
  turns.tryTake(taker);
  turns.leave(taker);
  turns.giveBack();
  t.is(started, 0);
});

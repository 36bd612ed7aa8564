import test from 'ava';
import { ConcurrencyLimiter, type LimiterClient } from '../../runtime/index.ts';

test('however many are done with their turns at once, each gets one, and none inside the other', (t) => {
  const turns = new ConcurrencyLimiter(1);
  const served: number[] = [];
  let depth = 0;
  let deepest = 0;
  const takers = Array.from(
    { length: 30_000 },
    (_, index): LimiterClient => ({
      startRequests: () => {
        if (!turns.tryAcquire(takers[index] ?? { startRequests: () => {} })) return;
        depth += 1;
        deepest = Math.max(deepest, depth);
        served.push(index);
        turns.release();
        depth -= 1;
      },
    }),
  );
  t.true(turns.tryAcquire({ startRequests: () => {} }));
  for (const taker of takers) taker.startRequests();
  t.deepEqual(served, []);
  turns.release();
  t.is(served.length, takers.length);
  t.deepEqual(served.slice(0, 3), [0, 1, 2]);
  t.is(deepest, 1);
});

test('one that leaves gets no turn', (t) => {
  const turns = new ConcurrencyLimiter(1);
  let started = 0;
  const taker: LimiterClient = { startRequests: () => (started += 1) };
  turns.tryAcquire({ startRequests: () => {} });
  turns.tryAcquire(taker);
  turns.cancel(taker);
  turns.release();
  t.is(started, 0);
});

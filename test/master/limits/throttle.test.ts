import test, { type ExecutionContext } from 'ava';
import { Throttle, TokenBuckets } from '../../../runtime/token-bucket.ts';

/** One at once, then one each 20 ms; its clock stands still. */
function throttle(t: ExecutionContext, maxWaiting: number): Throttle {
  // Nobody lives for a delay alone, nor does the process of a test.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  return new Throttle(new TokenBuckets({ perSecond: 50, burst: 1 }, () => 0), maxWaiting);
}

test('what is over the rate waits, up to a number; the rest is turned away at once', async (t) => {
  const limited = throttle(t, 3);
  const passes = Array.from({ length: 10 }, () => limited.pass('flooder'));
  t.true(limited.pass('another'));
  const outcomes = await Promise.all(passes);
  t.deepEqual(outcomes, [true, true, true, true, ...Array(6).fill(false)]);
});

test('who has waited makes room for others, and who was turned away has paid nothing', async (t) => {
  const limited = throttle(t, 1);
  const delays: number[] = [];
  const pass = (): boolean | Promise<boolean> => limited.pass('owner', 1, () => delays.push(1));
  t.true(await pass());
  const [waiting, refused] = [pass(), pass()];
  t.false(refused);
  t.true(await waiting);
  t.is(delays.length, 1);
  t.true(await pass());
  t.is(delays.length, 2);
});

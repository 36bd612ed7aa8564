import test from 'ava';
import { InFlight } from '../../../runtime/in-flight.ts';

function gate(): { readonly passed: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

test('an owner has so many under way and no more; others are not held up', async (t) => {
  const inFlight = new InFlight<number>(2);
  const { passed, open } = gate();
  const held = [1, 2].map((value) => inFlight.run('a', undefined, () => passed.then(() => value)));
  t.is(await inFlight.run('a', 'third', async () => 3), undefined);
  t.is(await inFlight.run('b', undefined, async () => 3), 3);
  open();
  t.deepEqual(await Promise.all(held), [1, 2]);
  t.is(await inFlight.run('a', undefined, async () => 3), 3);
});

test('the same work twice is done once, while it is under way', async (t) => {
  const inFlight = new InFlight<number>(1);
  const { passed, open } = gate();
  let count = 0;
  const work = async (): Promise<number> => {
    count += 1;
    await passed;
    return count;
  };
  const both = [inFlight.run('a', 'x', work), inFlight.run('a', 'x', work)];
  open();
  t.deepEqual(await Promise.all(both), [1, 1]);
  t.is(await inFlight.run('a', 'x', work), 2);
});

test('work that fails makes room again', async (t) => {
  const inFlight = new InFlight<number>(1);
  const failure = new Error('no');
  await t.throwsAsync(
    inFlight.run('a', 'x', () => Promise.reject(failure)),
    { is: failure },
  );
  t.is(await inFlight.run('a', 'x', async () => 1), 1);
});

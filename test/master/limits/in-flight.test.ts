import test from 'ava';
import { InFlight } from '../../../master/limits/in-flight.ts';

test('an owner has so many under way and no more; others are not held up', async (t) => {
  const inFlight = new InFlight(2);
  let finish = (): void => {};
  const gate = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const held = [1, 2].map((value) => inFlight.run('a', () => gate.then(() => value)));
  t.is(await inFlight.run('a', async () => 3), undefined);
  t.is(await inFlight.run('b', async () => 3), 3);
  finish();
  t.deepEqual(await Promise.all(held), [1, 2]);
  t.is(await inFlight.run('a', async () => 3), 3);
});

test('work that fails makes room again', async (t) => {
  const inFlight = new InFlight(1);
  const failure = new Error('no');
  await t.throwsAsync(
    inFlight.run('a', () => Promise.reject(failure)),
    { is: failure },
  );
  t.is(await inFlight.run('a', async () => 1), 1);
});

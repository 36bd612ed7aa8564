import test from 'ava';
import { KeyedSemaphore, Semaphore } from '../../runtime/index.ts';

test('so many at a time, the others in the order in which they came', async (t) => {
  const semaphore = new Semaphore(2);
  const started: number[] = [];
  const finish: (() => void)[] = [];
  const works = [0, 1, 2, 3].map((index) =>
    semaphore.run(async () => {
      started.push(index);
      await new Promise<void>((resolve) => finish.push(resolve));
      if (index === 1) throw new Error('failed');
    }),
  );
  const settled = Promise.allSettled(works);
  t.deepEqual(started, [0, 1]);
  finish[1]?.();
  await t.throwsAsync(works[1] ?? Promise.resolve(), { message: 'failed' });
  t.deepEqual(started, [0, 1, 2]);
  finish[0]?.();
  await works[0];
  t.deepEqual(started, [0, 1, 2, 3]);
  for (const end of finish) end();
  t.is((await settled).length, 4);
});

test('so many at a time for each key, and another key does not wait', async (t) => {
  const semaphore = new KeyedSemaphore(1);
  const started: string[] = [];
  const finish: (() => void)[] = [];
  const works = ['a', 'a', 'b'].map((key, index) =>
    semaphore.run(key, async () => {
      started.push(`${key}${index}`);
      await new Promise<void>((resolve) => finish.push(resolve));
    }),
  );
  t.deepEqual(started, ['a0', 'b2']);
  finish[1]?.();
  await works[2];
  t.deepEqual(started, ['a0', 'b2']);
  finish[0]?.();
  await works[0];
  t.deepEqual(started, ['a0', 'b2', 'a1']);
  finish[2]?.();
  await works[1];
});

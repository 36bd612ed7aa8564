import test from 'ava';
import { Gate } from '../../minion-protocol/gate.ts';

test('so many at a time, the others in the order in which they came', async (t) => {
  const gate = new Gate(2);
  const started: number[] = [];
  const finish: (() => void)[] = [];
  const works = [0, 1, 2, 3].map((index) =>
    gate.run(async () => {
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

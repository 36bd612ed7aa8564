import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { WriteScheduler } from '../../minion-protocol/transport/stream-connection.ts';

test('what a large fleet waits for goes out in rounds, and others have their turn in between', async (t) => {
  const rounds = new WriteScheduler();
  const order: (number | 'other')[] = [];
  const fleet = Array.from({ length: 1_000 }, (_, index) => index);
  for (const index of fleet) rounds.add({ write: () => order.push(index) });
  setImmediate(() => order.push('other'));
  while (order.length <= fleet.length) await turn();
  t.true(order.indexOf('other') < fleet.length);
  t.deepEqual(
    order.filter((it) => it !== 'other'),
    fleet,
  );
});

test('what is queued while a round is written goes out as well', async (t) => {
  const rounds = new WriteScheduler();
  const order: string[] = [];
  const last = { write: () => order.push('last') };
  rounds.add({
    write: () => {
      order.push('first');
      rounds.add(last);
    },
  });
  await turn();
  rounds.add(last);
  await turn();
  t.deepEqual(order, ['first', 'last', 'last']);
});

/** Lists of connected minions, for callers that request them often. */
import test from 'ava';
import { createPresence } from '#guests/data-spaces/presence.ts';
import type { PresentMinion } from '#master';

test('concurrent requests share one query of all minions', async (t) => {
  const web1: PresentMinion = {
    ...{ id: 'web1', transport: 'zeromq', address: '10.0.0.1', isSure: true },
    by: 'address',
  };
  let looks = 0;
  const present = createPresence({
    master: () => ({
      presence: async () => {
        looks += 1;
        return [web1];
      },
    }),
  });
  const found = await Promise.all(
    Array.from({ length: 20 }, async () => (await present()).has('web1')),
  );
  t.deepEqual([new Set(found), looks], [new Set([true]), 1]);
});

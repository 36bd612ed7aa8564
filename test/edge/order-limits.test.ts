/** Limits of orders at the centre: results that sites report. */

import test from 'ava';
import { CentreOrders } from '#edge/orders/centre-orders.ts';
import { noResults, orderSiteRow } from '#edge/orders/order-rows.ts';
import type { CentreContext } from '#edge/parts.ts';
import { memoryRows } from './bundles/tuf-stage.ts';

test('results of sites have limits, and are stored only in a final state', async (t) => {
  const shared = memoryRows({ now: 0 });
  const [id, site] = ['20261127000000000000', 'north'];
  const running = { result: { ...noResults, state: 'running' as const }, at: 0 };
  const key = ['order-sites', id, site];
  await shared.write([{ op: 'put', key, value: orderSiteRow.encode(running) }]);
  // Only these members are used.
  const orders = new CentreOrders({
    host: { shared, now: () => 1 },
  } as unknown as CentreContext);
  const operations = async (changed: object): Promise<number> => {
    const result = JSON.stringify({ ...noResults, state: 'failed', ...changed });
    const entry = { site, value: { id, result }, class: 'signal', kind: 'order' } as const;
    const found = await orders.operationsOf({
      ...entry,
      sequence: 1,
      at: { ms: 1, count: 0 },
      bytes: 1,
    });
    return found.length;
  };
  const failures = (count: number, minion = 'web1', reason = 'broken') =>
    Array.from({ length: count }, () => ({ minion, reason }));
  const names = (count: number, length: number) =>
    Array.from({ length: count }, () => 'x'.repeat(length));
  t.is(await operations({}), 2);
  t.is(await operations({ state: 'done', failures: failures(100), jids: names(100, 20) }), 2);
  for (const refused of [
    { failures: failures(101) },
    { failures: failures(1, 'x'.repeat(257)) },
    { failures: failures(1, 'web1', 'x'.repeat(201)) },
    { unaddressedNames: names(101, 1) },
    { jids: names(1, 257) },
    { state: 'running' },
    { state: 'waiting' },
  ]) {
    t.is(await operations(refused), 0);
  }
});

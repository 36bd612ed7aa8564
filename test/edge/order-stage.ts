/** Minions of sites, and orders of a centre, for tests. */

import type { ExecutionContext } from 'ava';
import type { OrderInfo, OrderReport, OrderWork } from '#edge';
import { createMinion, dialZeromq, type MinionFunction } from '#minion-protocol';
import { minionKeys } from '../helpers/rsa-keys.ts';
import type { Centre, StageMaster } from './edge-stage.ts';

/** Connects an embedded minion to a site. */
export async function join(
  t: ExecutionContext,
  { server }: StageMaster,
  id: string,
  functions: Readonly<Record<string, MinionFunction>> = {},
  number = 0,
): Promise<void> {
  const { requestPort } = await server.master.status();
  const transport = dialZeromq({ host: '127.0.0.1', requestPort });
  const minion = createMinion({ id, transport, keys: minionKeys(number), functions });
  t.teardown(() => minion.stop());
  await minion.start();
}

/** Issues an order over the local socket. */
export function issue(
  centre: Pick<Centre, 'rpc'>,
  sites: readonly string[],
  work: OrderWork,
  validSeconds = 60,
): Promise<OrderInfo> {
  return centre.rpc('site').call<OrderInfo>('order', { sites, work, validSeconds });
}

/** Follows an order to its end, and returns its last report. */
export async function ended(centre: Pick<Centre, 'rpc'>, { id }: OrderInfo): Promise<OrderReport> {
  let last: OrderReport | undefined;
  for await (const report of centre.rpc('site').stream<OrderReport>('tail', { id })) last = report;
  if (last === undefined) throw new Error('the stream had no report');
  return last;
}

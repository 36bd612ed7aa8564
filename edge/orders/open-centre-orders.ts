/** Part of the extension `site-centre` that issues orders. */

import { figureOf } from '#heat-bridge';
import type { CentreContext, CentrePartContribution } from '../parts.ts';
import { CentreOrders } from './centre-orders.ts';
import { orderMethods } from './order-methods.ts';

/** Opens the part of a centre that issues orders and receives their results. */
export function openCentreOrders(context: CentreContext): CentrePartContribution {
  const orders = new CentreOrders(context);
  context.sites.complete({ waitingOrdersOf: (site) => orders.waitingFor(site) });
  context.links.onConnected((site, caller) => orders.giveAll(site, caller));
  context.ingest.on('order', {
    operations: (entry) => orders.operationsOf(entry),
    applied: ({ value }) => orders.notify(String(value.id)),
  });
  return {
    rpc: orderMethods(orders, context.host),
    metrics: () => {
      const help = 'Orders that sites have not received yet.';
      return [figureOf('gauge', 'site_orders_waiting', help, orders.waiting)];
    },
    forget: (site) => orders.drop(site),
    start: () => orders.start(),
    close: async () => orders.close(),
  };
}

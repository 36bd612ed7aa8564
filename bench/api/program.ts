/** Program with the clients of an HTTP API. It runs in a process of its own. */
import type { ApiOrder } from './orders.ts';
import { readEvents } from './readers.ts';
import { sendRequests } from './requests.ts';

process.on('message', (order: ApiOrder) => {
  const outcome =
    order.do === 'requests'
      ? sendRequests(order)
      : readEvents(order, () => process.send?.({ isOpen: true }));
  void outcome.then((found) => process.send?.(found));
});

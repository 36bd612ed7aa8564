/** Messages about orders between a centre and its sites. */

import Type from 'typebox';
import { defineMessage } from '../link/link.ts';
import { maxOrderLength } from './order.ts';

/**
 * Gives an order to a site. The reply follows when the order is on the disk of the site. A site
 * that has the order already gives the same reply.
 */
export const giveOrder = defineMessage({
  name: 'order.give',
  sender: 'centre',
  class: 'order',
  params: Type.Object({ order: Type.String({ maxLength: maxOrderLength }) }),
  reply: Type.Object({
    state: Type.Enum(['accepted', 'refused']),
    /** Reason of a refusal. */
    reason: Type.Optional(Type.String({ maxLength: 4096 })),
  }),
});

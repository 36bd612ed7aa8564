/** Messages about orders between a centre and its sites. */

import Type from 'typebox';
import { defineMessage } from '../link/link.ts';
import { maxOrderLength } from './order.ts';

/**
 * Message with which the centre sends an order to a site. The site replies when the order is on its
 * disk. If the site has already stored the order, it sends the same reply again.
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

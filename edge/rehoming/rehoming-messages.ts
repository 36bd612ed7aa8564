/** Messages about statements between a site and its centre. */

import Type from 'typebox';
import { defineMessage } from '../link/link.ts';
import { maxStatementLength } from './statement.ts';

const strict = { additionalProperties: false };

/**
 * Message with which a centre sends a site a statement about its next centre. The reply is `held`
 * if the site has stored the statement. It is `used` if the site has already changed its centre
 * because of the statement. If the site refuses the statement, the reply is an error.
 */
export const giveStatement = defineMessage({
  name: 'rehoming.give',
  sender: 'centre',
  class: 'order',
  params: Type.Object(
    { statement: Type.String({ minLength: 1, maxLength: maxStatementLength }) },
    strict,
  ),
  reply: Type.Object({
    state: Type.Unsafe<'held' | 'used'>(Type.String({ pattern: '^(?:held|used)$' })),
  }),
});

/** Message with which a site notifies its former centre that it has another centre from now on. */
export const siteLeft = defineMessage({
  name: 'rehoming.left',
  sender: 'site',
  class: 'order',
  params: Type.Object({ issuedAt: Type.Integer({ minimum: 0 }) }, strict),
  reply: Type.Object({}),
  maxBytes: 64,
});

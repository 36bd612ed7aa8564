/** Messages about statements between a site and its centre. */

import Type from 'typebox';
import { defineMessage } from '../link/link.ts';
import { maxStatementLength } from './statement.ts';

const strict = { additionalProperties: false };

/**
 * Gives a statement to a site. `held`: the site has stored it. `used`: the site has changed to this
 * centre by this statement. If the site refuses the statement, the reply is an error.
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

/** Notifies the former centre that the site has another centre from now on. */
export const siteLeft = defineMessage({
  name: 'rehoming.left',
  sender: 'site',
  class: 'order',
  params: Type.Object({ issuedAt: Type.Integer({ minimum: 0 }) }, strict),
  reply: Type.Object({}),
  maxBytes: 64,
});

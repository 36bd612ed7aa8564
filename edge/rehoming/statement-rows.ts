/** Stored rows of a centre about statements, which move sites to another centre. */

import Type from 'typebox';
import { defineRow, type RowOf } from '#store';

const Time = Type.Integer({ minimum: 0 });

/**
 * Encodes and decodes a published statement, which moves sites to another centre. The key of the
 * row is `['rehoming', 'statement', time of issue]`.
 */
export const statementRow = defineRow({
  name: 'statement about the next centre',
  schema: Type.Object({ text: Type.String(), publishedAt: Time }),
});

/**
 * Encodes and decodes the reply of a site to a statement. The key of the row is
 * `['rehoming', 'site', name]`.
 */
export const statementReplyRow = defineRow({
  name: 'reply of a site to a statement',
  schema: Type.Object({
    issuedAt: Time,
    state: Type.Unsafe<'held' | 'refused' | 'used' | 'left'>(Type.String()),
    /** Reason why the site refused the statement. */
    reason: Type.Optional(Type.String()),
    at: Time,
    /** Time of issue of the latest statement by which the site has left this centre. */
    leftBy: Type.Optional(Time),
  }),
});
export type StatementReply = RowOf<typeof statementReplyRow>;

/** Stored rows of a centre about statements. */

import Type from 'typebox';
import { defineRow, type RowOf } from '#store';

const Time = Type.Integer({ minimum: 0 });

/** Codec of a published statement: `['rehoming', 'statement', time of issue]`. */
export const statementRow = defineRow({
  name: 'statement about the next centre',
  schema: Type.Object({ text: Type.String(), publishedAt: Time }),
});

/** Codec of the answer of a site to a statement: `['rehoming', 'site', name]`. */
export const statementReplyRow = defineRow({
  name: 'reply of a site to a statement',
  schema: Type.Object({
    issuedAt: Time,
    state: Type.Unsafe<'held' | 'refused' | 'used' | 'left'>(Type.String()),
    /** Reason of a refusal. */
    reason: Type.Optional(Type.String()),
    at: Time,
  }),
});
export type StatementReply = RowOf<typeof statementReplyRow>;

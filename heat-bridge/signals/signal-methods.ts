/** RPC methods of handles and the outbox on the local socket. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import { ownerField, registrationMethods } from '../registrations.ts';
import { auditedMinions, outboxRecord } from './signal-audit.ts';
import type { SignalsApi } from './signals-api.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const selectionFields = { id: Type.Optional(Text), alias: Type.Optional(Text), ...ownerField };
const Selection = Type.Object(selectionFields, strict);

/** Returns the RPC methods: `bridge.handles.add` and others. */
export function signalMethods({ handles, outbox }: SignalsApi): RpcTable {
  return {
    handles: registrationMethods(handles, {
      subject: 'handle',
      key: 'alias',
      detailsOf: auditedMinions,
      selectors: { stack: Type.Optional(Text) },
    }),
    outbox: {
      list: extensionMethod({
        parameters: Type.Object(
          {
            ...selectionFields,
            isDead: Type.Optional(Type.Boolean()),
            isDelivered: Type.Optional(Type.Boolean()),
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
          },
          strict,
        ),
        call: (_api, p) => outbox.list(p),
      }),
      retry: extensionMethod({
        parameters: Selection,
        call: (_api, p) => outbox.retry(p),
        audit: { action: 'outbox.retry', ...outboxRecord },
      }),
      drop: extensionMethod({
        parameters: Selection,
        call: (_api, p) => outbox.drop(p),
        audit: { action: 'outbox.drop', ...outboxRecord },
      }),
    },
  };
}

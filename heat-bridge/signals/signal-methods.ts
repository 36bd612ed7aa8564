/** RPC methods for handles and the outbox at the master's local socket. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import type { HandleRegistration } from './handles.ts';
import { auditedMinions, outboxRecord } from './signal-audit.ts';
import type { HandleOwnerAndStack, SignalsApi } from './signals-api.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const ownerField = { owner: Type.Optional(Text) };
const Alias = Type.Object({ alias: Text, stack: Type.Optional(Text), ...ownerField }, strict);
const selectionFields = { id: Type.Optional(Text), alias: Type.Optional(Text), ...ownerField };
const Selection = Type.Object(selectionFields, strict);
/** `handles.add` looks at it more closely. */
const Registration = Type.Unsafe<HandleRegistration>(Type.Object({ alias: Text }));

/** The methods, called there as `bridge.handles.add` and so on. */
export function signalMethods({ handles, outbox }: SignalsApi): RpcTable {
  return {
    handles: {
      add: extensionMethod({
        parameters: Type.Object(
          { registration: Registration, replaces: Type.Optional(Type.Boolean()) },
          strict,
        ),
        args: (registration: HandleRegistration, options?: { readonly replaces?: boolean }) => ({
          registration,
          ...options,
        }),
        call: (_api, { registration, replaces = false }) => handles.add(registration, { replaces }),
        audit: {
          action: 'handle.add',
          done: ({ registration: { alias } }, handle) => ({
            what: String(alias),
            ...auditedMinions(handle),
          }),
          failed: ({ registration: { alias } }) => ({ what: String(alias) }),
        },
      }),
      list: extensionMethod({
        parameters: Type.Object(ownerField, strict),
        call: (_api, p) => handles.list(p),
      }),
      show: extensionMethod({
        parameters: Alias,
        call: (_api, { alias, ...of }) => handles.show(alias, of),
      }),
      remove: extensionMethod({
        parameters: Alias,
        args: (alias: string, of?: HandleOwnerAndStack) => ({ alias, ...of }),
        call: (_api, { alias, ...of }) => handles.remove(alias, of),
        audit: {
          action: 'handle.remove',
          done: ({ alias }, handle) => ({ what: alias, ...auditedMinions(handle) }),
          failed: ({ alias }) => ({ what: alias }),
        },
      }),
    },
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

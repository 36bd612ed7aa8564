/** Handles and outbox at the master's local socket. */
import Type from '#typebox';
import { extensionMethod, type RpcMethod } from '../../master/index.ts';
import type { HandleRegistration } from './handle.ts';
import type { SignalsApi } from './signals-api.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const owner = { owner: Type.Optional(Text) };
const Alias = Type.Object({ alias: Text, ...owner }, strict);
const selection = { id: Type.Optional(Text), alias: Type.Optional(Text), ...owner };
const Selection = Type.Object(selection, strict);
/** `handles.add` looks at it more closely. */
const Registration = Type.Unsafe<HandleRegistration>(Type.Object({ alias: Text }));

/** The methods, called there as `bridge.handles.add` and so on. */
export function signalMethods({ handles, outbox }: SignalsApi): ReadonlyMap<string, RpcMethod> {
  return new Map([
    [
      'handles.add',
      extensionMethod({
        parameters: Type.Object(
          { registration: Registration, replaces: Type.Optional(Type.Boolean()) },
          strict,
        ),
        call: (_api, { registration, replaces = false }) => handles.add(registration, { replaces }),
      }),
    ],
    [
      'handles.list',
      extensionMethod({
        parameters: Type.Object(owner, strict),
        call: (_api, p) => handles.list(p),
      }),
    ],
    [
      'handles.show',
      extensionMethod({
        parameters: Alias,
        call: (_api, { alias, ...of }) => handles.show(alias, of),
      }),
    ],
    [
      'handles.remove',
      extensionMethod({
        parameters: Alias,
        call: (_api, { alias, ...of }) => handles.remove(alias, of),
      }),
    ],
    [
      'outbox.list',
      extensionMethod({
        parameters: Type.Object(
          {
            ...selection,
            isDead: Type.Optional(Type.Boolean()),
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
          },
          strict,
        ),
        call: (_api, p) => outbox.list(p),
      }),
    ],
    [
      'outbox.retry',
      extensionMethod({ parameters: Selection, call: (_api, p) => outbox.retry(p) }),
    ],
    ['outbox.drop', extensionMethod({ parameters: Selection, call: (_api, p) => outbox.drop(p) })],
  ]);
}

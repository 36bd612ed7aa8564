/**
 * The library's interface as methods with a name, for the local socket: what each takes, and
 * whether it gives one value or a stream. The client is made from the same table.
 */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { MasterApi } from '../api.ts';

const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());
const AnyMap = Type.Unsafe<WireMap>(Type.Object({}));
const Text = Type.String({ maxLength: 65_536 });
const strict = { additionalProperties: false };
const State = Type.Union([
  Type.Literal('accepted'),
  Type.Literal('denied'),
  Type.Literal('pending'),
  Type.Literal('rejected'),
]);

const Nothing = Type.Object({}, strict);
const Selection = Type.Object(
  {
    match: Type.String({ minLength: 1, maxLength: 1024 }),
    fingerprint: Type.Optional(Text),
    include: Type.Optional(Type.Array(State)),
  },
  strict,
);
const target = {
  tgt: Type.Union([Text, Type.Array(Text)]),
  tgtType: Type.Optional(Text),
  delimiter: Type.Optional(Text),
};
const Run = Type.Object(
  {
    ...target,
    fun: Text,
    arg: Type.Optional(Type.Array(AnyValue)),
    kwarg: Type.Optional(Type.Record(Type.String(), AnyValue)),
    user: Type.Optional(Text),
    ret: Type.Optional(Text),
    metadata: Type.Optional(AnyMap),
    timeout: Type.Optional(Type.Number({ minimum: 0 })),
    gatherJobTimeout: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);

interface Call<S extends TSchema, R> {
  readonly parameters: S;
  readonly call: (api: MasterApi, parameters: Static<S>, signal: AbortSignal) => R;
}

/** A method as the server sees it: parameters from outside, checked before the call. */
export interface RpcMethod {
  /** Says what is wrong with the parameters, or `undefined` if nothing is. */
  readonly complaint: (parameters: unknown) => string | undefined;
  readonly invoke: (
    api: MasterApi,
    parameters: unknown,
    signal: AbortSignal,
  ) => Promise<unknown> | AsyncIterable<unknown>;
}

function method<S extends TSchema>(
  definition: Call<S, Promise<unknown> | AsyncIterable<unknown>>,
): RpcMethod {
  const check = Compile(definition.parameters);
  return {
    complaint: (parameters) => {
      const [first] = check.Errors(parameters);
      if (first === undefined) return undefined;
      const name = first.instancePath.slice(1).replaceAll('/', '.') || 'parameters';
      // What no schema describes is measured against the schema `false`.
      return first.keyword === 'boolean' ? `${name} is no parameter` : `${name} ${first.message}`;
    },
    invoke: (api, parameters, signal) => definition.call(api, check.Parse(parameters), signal),
  };
}

/** Every method of the local socket. */
export const rpcMethods: ReadonlyMap<string, RpcMethod> = new Map([
  ['status', method({ parameters: Nothing, call: (api) => api.status() })],
  ['keys.list', method({ parameters: Nothing, call: (api) => api.keys.list() })],
  ['keys.local', method({ parameters: Nothing, call: (api) => api.keys.local() })],
  ['keys.accept', method({ parameters: Selection, call: (api, p) => api.keys.accept(p) })],
  ['keys.reject', method({ parameters: Selection, call: (api, p) => api.keys.reject(p) })],
  ['keys.delete', method({ parameters: Selection, call: (api, p) => api.keys.delete(p) })],
  [
    'keys.unpin',
    method({
      parameters: Type.Object({ id: Text }, strict),
      call: (api, { id }) => api.keys.unpin(id),
    }),
  ],
  ['jobs.run', method({ parameters: Run, call: (api, p, signal) => api.jobs.run(p, signal) })],
  [
    'jobs.plan',
    method({ parameters: Type.Object(target, strict), call: (api, p) => api.jobs.plan(p) }),
  ],
  [
    'events.subscribe',
    method({
      parameters: Type.Object({ match: Type.Optional(Text) }, strict),
      call: (api, p, signal) => api.events.subscribe(p, signal),
    }),
  ],
  ['events.denials', method({ parameters: Nothing, call: (api) => api.events.denials() })],
]);

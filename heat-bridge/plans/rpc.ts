/** Plans at the local socket, for the command line: whoever may use it may do everything. */
import Type from '#typebox';
import { extensionMethod, type RpcMethod } from '../../master/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import { callerOf } from '../run/rpc.ts';
import type { Groups } from './groups.ts';
import type { PlanApi } from './plan-api.ts';
import type { PlanHandle, PlanUpdate } from './request.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 65_536 });
const caller = {
  /** Whoever it is of calls, and rules are asked. */
  token: Type.Optional(Text),
  /** This service calls, and rules are asked. */
  service: Type.Optional(Text),
};
const Plan = Type.Object(
  {
    plan: Text,
    groups: Type.Record(Type.String(), Type.Union([Text, Type.Array(Text)])),
    params: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    idempotencyKey: Type.Optional(Text),
    project: Type.Optional(Text),
    ...caller,
  },
  strict,
);
const Run = Type.Object({ id: Text, ...caller }, strict);
const Cancel = Type.Object({ id: Text, undo: Type.Optional(Type.Boolean()), ...caller }, strict);

/** What the first item of a run of a plan says of it. */
export interface BegunPlan {
  readonly type: 'begun';
  readonly id: string;
  readonly groups: Groups;
  readonly isRepeated: boolean;
}

/** By name; called as `bridge.<name>`. */
export function planMethods(api: PlanApi): ReadonlyMap<string, RpcMethod> {
  return new Map([
    [
      'plans',
      extensionMethod({ parameters: Type.Object({}, strict), call: async () => api.list() }),
    ],
    [
      'plan',
      extensionMethod({
        parameters: Type.Object({ name: Text }, strict),
        call: async (_master, { name }) => api.show(name),
      }),
    ],
    [
      'runPlan',
      extensionMethod({
        parameters: Plan,
        call: async function* (_master, { plan, params, token, service, ...rest }, end) {
          // JSON, as it came.
          const given = (params ?? {}) as Readonly<Record<string, WireValue>> as Parameters;
          const by = callerOf(token, service);
          yield* told(await api.run(plan, { ...rest, caller: by, params: given }), end);
        },
      }),
    ],
    [
      'followPlan',
      extensionMethod({
        parameters: Run,
        call: async function* (_master, { id, token, service }, end) {
          yield* told(await api.find(id, callerOf(token, service)), end);
        },
      }),
    ],
    [
      'cancelPlan',
      extensionMethod({
        parameters: Cancel,
        call: async (_master, { id, undo = true, token, service }) => {
          const handle = await api.find(id, callerOf(token, service));
          await handle.cancel({ undo });
          return handle.outcome;
        },
      }),
    ],
  ]);
}

/** The first item of a run of a plan. */
export function begunPlan({ id, groups, isRepeated }: PlanHandle): BegunPlan {
  return { type: 'begun', id, groups, isRepeated };
}

/** Who reads no more leaves the run to itself. */
async function* told(
  handle: PlanHandle,
  end: AbortSignal,
): AsyncGenerator<BegunPlan | PlanUpdate, void, void> {
  yield begunPlan(handle);
  for await (const update of handle.updates()) {
    if (end.aborted) return;
    yield update;
  }
}

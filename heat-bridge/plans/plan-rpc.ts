/** Plans at the local socket. A client of the socket may do everything. */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { callableCommands } from '../commands/callers.ts';
import { ListParameters, rpcCallerOf } from '../commands/command-rpc.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { PlanApi } from './plan-api.ts';
import type { Groups } from './plan-groups.ts';
import { mayRunPlan } from './plan-info.ts';
import type { PlanHandle, PlanUpdate } from './plan-request.ts';

const strict = { additionalProperties: false };

const Text = Type.String({ minLength: 1, maxLength: 65_536 });

const callerParameters = {
  /** Whoever it is of calls, and rules are asked. */
  token: Type.Optional(Text),
  /** This service calls, and rules are asked. */
  service: Type.Optional(Text),
};

const RunPlanParameters = Type.Object(
  {
    plan: Text,
    groups: Type.Record(Type.String(), Type.Union([Text, Type.Array(Text)])),
    params: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    idempotencyKey: Type.Optional(Text),
    project: Type.Optional(Text),
    ...callerParameters,
  },
  strict,
);

const FindParameters = Type.Object({ id: Text, ...callerParameters }, strict);

const CancelParameters = Type.Object(
  { id: Text, undo: Type.Optional(Type.Boolean()), ...callerParameters },
  strict,
);

/** What the first item of a run of a plan says of it. */
export interface PlanStarted {
  readonly type: 'begun';
  readonly id: string;
  readonly groups: Groups;
  /** Groups of which the caller's rights leave out minions that their targets may match. */
  readonly narrowed: readonly string[];
  readonly isRepeated: boolean;
}

/** By name; called as `bridge.<name>`. */
export function planMethods(api: PlanApi, host: ExtensionHost): RpcTable {
  return {
    plans: extensionMethod({
      access: 'user',
      parameters: ListParameters,
      call: async (_master, { token, service }) => {
        const mayCall = await callableCommands(host, rpcCallerOf(token, service));
        return api.list().filter((plan) => mayRunPlan(plan, mayCall));
      },
    }),
    plan: extensionMethod({
      parameters: Type.Object({ name: Text }, strict),
      call: async (_master, { name }) => api.show(name),
    }),
    runPlan: extensionStream({
      access: 'user',
      parameters: RunPlanParameters,
      call: async function* (_master, { plan, params, token, service, ...rest }, end) {
        // JSON, as it came.
        const given = (params ?? {}) as Readonly<Record<string, WireValue>> as Parameters;
        const by = rpcCallerOf(token, service);
        yield* streamPlanRun(await api.run(plan, { ...rest, caller: by, params: given }), end);
      },
      audit: { action: 'plan.run', writtenBy: 'plans' },
    }),
    followPlan: extensionStream({
      access: 'user',
      parameters: FindParameters,
      call: async function* (_master, { id, token, service }, end) {
        yield* streamPlanRun(await api.find(id, rpcCallerOf(token, service)), end);
      },
    }),
    cancelPlan: extensionMethod({
      access: 'user',
      parameters: CancelParameters,
      call: async (_master, { id, undo = true, token, service }) => {
        const handle = await api.find(id, rpcCallerOf(token, service));
        await handle.cancel({ undo });
        return handle.outcome;
      },
      audit: { action: 'plan.end', writtenBy: 'plans' },
    }),
  };
}

/** The first item of a run of a plan. */
export function firstPlanUpdate({ id, groups, narrowed, isRepeated }: PlanHandle): PlanStarted {
  return { type: 'begun', id, groups, narrowed, isRepeated };
}

/** Who reads no more leaves the run to itself. */
async function* streamPlanRun(
  handle: PlanHandle,
  end: AbortSignal,
): AsyncGenerator<PlanStarted | PlanUpdate, void, void> {
  yield firstPlanUpdate(handle);
  for await (const update of handle.updates()) {
    if (end.aborted) return;
    yield update;
  }
}

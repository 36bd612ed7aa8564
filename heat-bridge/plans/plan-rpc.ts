/** RPC methods of plans on the local socket, whose clients have all rights. */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import { callableCommands } from '../commands/callers.ts';
import {
  callerParameters,
  ListParameters,
  rpcCallerOf,
  runParameters,
  streamRun,
  Text,
} from '../commands/command-rpc.ts';
import type { PlanApi } from './plan-api.ts';
import type { Groups } from './plan-groups.ts';
import { mayRunPlan } from './plan-info.ts';
import type { PlanHandle } from './plan-request.ts';

const strict = { additionalProperties: false };

const RunPlanParameters = Type.Object(
  {
    plan: Text,
    groups: Type.Record(Type.String(), Type.Union([Text, Type.Array(Text)])),
    ...runParameters,
  },
  strict,
);
const FindParameters = Type.Object({ id: Text, ...callerParameters }, strict);
const CancelParameters = Type.Object(
  { id: Text, undo: Type.Optional(Type.Boolean()), ...callerParameters },
  strict,
);

/** First item in the stream of updates of a plan's run. */
export interface PlanStarted {
  readonly type: 'begun';
  readonly id: string;
  readonly groups: Groups;
  /**
   * Names of the groups from which minions were removed, because the caller has no rights on these
   * minions.
   */
  readonly narrowed: readonly string[];
  readonly isRepeated: boolean;
}

/** Returns the RPC methods of plans: `bridge.<name>`. */
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
      call: async function* (_master, { plan, token, service, ...rest }, end) {
        const run = await api.run(plan, { ...rest, caller: rpcCallerOf(token, service) });
        yield* streamRun(run, firstPlanUpdate(run), end);
      },
      audit: { action: 'plan.run', writtenBy: 'plans' },
    }),
    followPlan: extensionStream({
      access: 'user',
      parameters: FindParameters,
      call: async function* (_master, { id, token, service }, end) {
        const run = await api.find(id, rpcCallerOf(token, service));
        yield* streamRun(run, firstPlanUpdate(run), end);
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

/** Returns the first item in the stream of updates of a plan's run. */
export function firstPlanUpdate({ id, groups, narrowed, isRepeated }: PlanHandle): PlanStarted {
  return { type: 'begun', id, groups, narrowed, isRepeated };
}

/** Interfaces to plans: for programs, and at the local socket. */

import Type from '#typebox';
import { extensionMethod, extensionStream, type RpcTable } from '../../master/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import {
  type CommandCaller,
  type CommandRequest,
  type CommandResult,
  type CommandTarget,
  rpcCallerOf,
} from '../commands/command-api.ts';
import type { Parameters } from '../commands/parameters.ts';
import { describePlan, type PlanCatalog, type PlanInfo } from './plan-catalog.ts';
import type { Groups } from './plan-groups.ts';
import type { PlanRunner } from './plan-runner.ts';

/** Plans: what there is, and calls. */
export interface PlanApi {
  /** In the order of their names. */
  list(): readonly PlanInfo[];
  /** @throws BridgeError ERR_PLAN_UNKNOWN */
  show(name: string): PlanInfo;
  /** See `Bridge.plan`. */
  run(name: string, request: PlanRequest): Promise<PlanHandle>;
  /**
   * A run that goes on, or was over not long ago.
   * @throws BridgeError ERR_RUN_UNKNOWN, also where it is somebody else's
   */
  find(id: string, caller: CommandCaller): Promise<PlanHandle>;
}

export function createPlanApi(plans: PlanCatalog, runner: PlanRunner): PlanApi {
  return {
    list: () => plans.list().map(describePlan),
    show: (name) => describePlan(plans.get(name)),
    run: (name, request) => runner.run(name, request),
    find: (id, caller) => runner.find(id, caller),
  };
}

// Requests and results.

/** A call of a plan. */
export interface PlanRequest<P = Parameters, G extends string = string>
  extends Pick<CommandRequest<P>, 'params' | 'project' | 'deadline' | 'signal'> {
  /** A target for each group that the plan does not make from others; no minion twice. */
  readonly groups: Readonly<Record<G, CommandTarget>>;
  /** Default: the service that `createBridge` was given. */
  readonly caller?: CommandCaller;
  /**
   * The same key again, by the same caller for the same project and plan, is the same run: what of
   * it is done is not done again. 1 to 255 characters.
   */
  readonly idempotencyKey?: string;
  /** Whether `signal` takes back what is done, as {@link PlanHandle.cancel} does. Default true. */
  readonly undoOnCancel?: boolean;
}

/** What became of a step, or of what takes it back. */
export interface StepOutcome {
  readonly step: string;
  readonly command: string;
  /** `skipped`: it was never begun. */
  readonly status: 'succeeded' | 'failed' | 'skipped';
  readonly results: readonly CommandResult[];
  /** Ids of its runs. */
  readonly runs: readonly string[];
  /** For a person. */
  readonly reason?: string;
}

/** What became of a plan. */
export interface PlanOutcome {
  readonly id: string;
  readonly plan: string;
  /**
   * `partial`: only steps failed that need not succeed, and those that need them; `interrupted`:
   * the master ended meanwhile, and the same key goes on with it.
   */
  readonly status: 'succeeded' | 'partial' | 'failed' | 'timeout' | 'cancelled' | 'interrupted';
  /** In an order in which each comes after what it needs. */
  readonly steps: readonly StepOutcome[];
  /** What was taken back, the latest step first. */
  readonly undone: readonly StepOutcome[];
  /** The first step whose failure ended the plan. */
  readonly failedStep?: string;
}

/** What a step is about: doing it, or taking it back. */
export type StepKind = 'do' | 'undo';

/** How far a step is. */
export interface StepProgress {
  readonly type: 'step';
  readonly step: string;
  readonly kind: StepKind;
  readonly state: 'running' | StepOutcome['status'];
  /** Minions that it is for, and those of them that had their say and that succeeded. */
  readonly minions: { readonly all: number; readonly ended: number; readonly succeeded: number };
  /** Steps of the plan, and those that have ended. */
  readonly steps: { readonly all: number; readonly ended: number };
  readonly reason?: string;
}

/** What a plan tells while it goes on; `outcome` is last. */
export type PlanUpdate =
  | StepProgress
  | {
      readonly type: 'result';
      readonly step: string;
      readonly kind: StepKind;
      readonly result: CommandResult;
    }
  | { readonly type: 'outcome'; readonly outcome: PlanOutcome };

/** A plan that was begun, or was there before under the same key. */
export interface PlanHandle {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Whether the key was used before, and this is that run. */
  readonly isRepeated: boolean;
  /** What minions do ends in results and not in an error. Rejects where the master fails. */
  readonly outcome: Promise<PlanOutcome>;
  /** From the beginning, to any number of readers. */
  updates(): AsyncIterable<PlanUpdate>;
  /**
   * Begins nothing more, ends what is under way, and takes back what is done unless `undo` is false.
   */
  cancel(options?: { readonly undo?: boolean }): Promise<void>;
}

// Plans at the local socket. Whoever may use it may do everything.

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
  readonly isRepeated: boolean;
}

/** By name; called as `bridge.<name>`. */
export function planMethods(api: PlanApi): RpcTable {
  return {
    plans: extensionMethod({ parameters: Type.Object({}, strict), call: async () => api.list() }),
    plan: extensionMethod({
      parameters: Type.Object({ name: Text }, strict),
      call: async (_master, { name }) => api.show(name),
    }),
    runPlan: extensionStream({
      parameters: RunPlanParameters,
      call: async function* (_master, { plan, params, token, service, ...rest }, end) {
        // JSON, as it came.
        const given = (params ?? {}) as Readonly<Record<string, WireValue>> as Parameters;
        const by = rpcCallerOf(token, service);
        yield* streamPlanRun(await api.run(plan, { ...rest, caller: by, params: given }), end);
      },
    }),
    followPlan: extensionStream({
      parameters: FindParameters,
      call: async function* (_master, { id, token, service }, end) {
        yield* streamPlanRun(await api.find(id, rpcCallerOf(token, service)), end);
      },
    }),
    cancelPlan: extensionMethod({
      parameters: CancelParameters,
      call: async (_master, { id, undo = true, token, service }) => {
        const handle = await api.find(id, rpcCallerOf(token, service));
        await handle.cancel({ undo });
        return handle.outcome;
      },
    }),
  };
}

/** The first item of a run of a plan. */
export function firstPlanUpdate({ id, groups, isRepeated }: PlanHandle): PlanStarted {
  return { type: 'begun', id, groups, isRepeated };
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

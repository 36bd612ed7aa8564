/** Types of requests for runs of plans, and of their results. */

import Type, { type Static } from 'typebox';
import { Texts } from '#store';
import {
  type CommandCaller,
  type CommandRequest,
  type CommandResult,
  type CommandTarget,
  ResultSchema,
} from '../commands/command-request.ts';
import type { Parameters } from '../commands/parameters.ts';
import type { Groups } from './plan-groups.ts';

/** Request for a run of a plan. */
export interface PlanRequest<P = Parameters, G extends string = string>
  extends Pick<CommandRequest<P>, 'params' | 'project' | 'deadline' | 'signal'> {
  /**
   * Targets, by group. Each group that is not a part of another group requires a target. No minion
   * may match two targets.
   */
  readonly groups: Readonly<Record<G, CommandTarget>>;
  /** Caller of the plan. Default: the service that is configured in `createBridge`. */
  readonly caller?: CommandCaller;
  /**
   * Idempotency key, 1 to 255 characters. A repeated request with the same key, caller, project and
   * plan returns the same run, and does not repeat completed steps.
   */
  readonly idempotencyKey?: string;
  /** Whether completed steps are undone when `signal` cancels the run. Default: true. */
  readonly undoOnCancel?: boolean;
}

const Text = Type.String();

/** Outcome of a step, or of undoing a step. */
const StepOutcomeSchema = Type.Object({
  step: Text,
  command: Text,
  /** Status. `skipped`: the step was never started. */
  status: Type.Enum(['succeeded', 'failed', 'skipped']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** Ids of the runs in which the step executed its command. */
  runs: Texts,
  /** Reason of a failure, in human-readable form. */
  reason: Type.Optional(Text),
});

/** Outcome of a step, or of undoing a step. */
export type StepOutcome = Readonly<Static<typeof StepOutcomeSchema>>;

/** Outcome of a plan. */
export const PlanOutcomeSchema = Type.Object({
  id: Text,
  plan: Text,
  /**
   * Status. `partial`: only steps with `onFailure: continue` failed, and the steps that need them
   * were skipped. `interrupted`: the master ended during the run; a repeated request with the same
   * idempotency key continues it.
   */
  status: Type.Enum(['succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted']),
  /** Outcomes of the steps. Each step comes after the steps that it needs. */
  steps: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** Outcomes of the commands that undid steps, the latest step first. */
  undone: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** Name of the first step whose failure ended the plan. */
  failedStep: Type.Optional(Text),
});

/** Outcome of a plan; {@link PlanOutcomeSchema} documents its fields. */
export type PlanOutcome = Readonly<Static<typeof PlanOutcomeSchema>>;

const Kind = Type.Enum(['do', 'undo']);
const counts = { all: Type.Integer(), ended: Type.Integer() };

/** Progress of a step. */
const StepProgressSchema = Type.Object({
  type: Type.Literal('step'),
  step: Text,
  kind: Kind,
  state: Type.Enum(['running', 'succeeded', 'failed', 'skipped']),
  /**
   * Number of all minions of the step (`all`), of minions with a result (`ended`), and of minions
   * on which the step succeeded (`succeeded`).
   */
  minions: Type.Object({ ...counts, succeeded: Type.Integer() }),
  /** Total number of steps of the plan (`all`), and number of steps that have ended (`ended`). */
  steps: Type.Object(counts),
  reason: Type.Optional(Text),
});

/** Kind of an execution: `do` runs a step, `undo` undoes it. */
export type StepKind = Static<typeof Kind>;

/** Progress of a step. */
export type StepProgress = Readonly<Static<typeof StepProgressSchema>>;

/** Schemas of the updates of a plan's run. The last update is the `outcome`. */
export const planUpdates = [
  StepProgressSchema,
  Type.Object({
    type: Type.Literal('result'),
    step: Text,
    kind: Kind,
    result: Type.Unsafe<CommandResult>(ResultSchema),
  }),
  Type.Object({
    type: Type.Literal('outcome'),
    outcome: Type.Unsafe<PlanOutcome>(PlanOutcomeSchema),
  }),
];

/** Update of a plan's run. The last update is the `outcome`. */
export type PlanUpdate = Readonly<Static<(typeof planUpdates)[number]>>;

/**
 * Handle of a plan's run. Either this request started the run, or an earlier request with the same
 * idempotency key had started it.
 */
export interface PlanHandle {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /**
   * Names of the groups that exclude some minions, because the caller has no rights on these
   * minions.
   */
  readonly narrowed: readonly string[];
  /** Whether the run already existed under the idempotency key. */
  readonly isRepeated: boolean;
  /**
   * Outcome of the run. The promise resolves even if commands fail on minions. It rejects only
   * after an internal error of the master.
   */
  readonly outcome: Promise<PlanOutcome>;
  /** Returns all updates, from the start of the run. Can be called several times. */
  updates(): AsyncIterable<PlanUpdate>;
  /**
   * Cancels the run: starts no further steps, and ends active ones. Completed steps are undone
   * unless `undo` is false.
   */
  cancel(options?: { readonly undo?: boolean }): Promise<void>;
}

/** Request for a run of a plan, and its results. */

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
  /** Targets of the groups that are not parts of others. They must not share minions. */
  readonly groups: Readonly<Record<G, CommandTarget>>;
  /** Caller. Default: the service that `createBridge` was given. */
  readonly caller?: CommandCaller;
  /**
   * Idempotency key, 1 to 255 characters. Repeating a key with the same caller, project and plan
   * returns the same run, and completed steps do not run again.
   */
  readonly idempotencyKey?: string;
  /** Whether `signal` undoes completed steps, like {@link PlanHandle.cancel}. Default: true. */
  readonly undoOnCancel?: boolean;
}

const Text = Type.String();

/** Outcome of a step, or of undoing it. */
const StepOutcomeSchema = Type.Object({
  step: Text,
  command: Text,
  /** Status. `skipped`: it was never started. */
  status: Type.Enum(['succeeded', 'failed', 'skipped']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** Ids of the command runs. */
  runs: Texts,
  /** Reason of a failure, human-readable. */
  reason: Type.Optional(Text),
});

/** Outcome of a step, or of undoing it. */
export type StepOutcome = Readonly<Static<typeof StepOutcomeSchema>>;

/** Outcome of a plan. */
export const PlanOutcomeSchema = Type.Object({
  id: Text,
  plan: Text,
  /**
   * Status. `partial`: only steps with `onFailure: continue` failed, and steps that need them were
   * skipped; `interrupted`: the master ended during the run, and repeating the key continues it.
   */
  status: Type.Enum(['succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted']),
  /** Steps, each after those that it needs. */
  steps: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** Steps that were undone, the latest first. */
  undone: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** First step whose failure ended the plan. */
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
  /** Numbers of its minions, of those with a result, and of those that succeeded. */
  minions: Type.Object({ ...counts, succeeded: Type.Integer() }),
  /** Numbers of steps of the plan, and of ended ones. */
  steps: Type.Object(counts),
  reason: Type.Optional(Text),
});

/** Whether a step is done or undone. */
export type StepKind = Static<typeof Kind>;

/** Progress of a step. */
export type StepProgress = Readonly<Static<typeof StepProgressSchema>>;

/** Schemas of the updates of a plan; `outcome` is last. */
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

/** Update of a plan; `outcome` is last. */
export type PlanUpdate = Readonly<Static<(typeof planUpdates)[number]>>;

/** Run that was started, or that exists under the same idempotency key. */
export interface PlanHandle {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Groups whose targets may match more minions than the caller's rights permit. */
  readonly narrowed: readonly string[];
  /** Whether the run existed under the same key. */
  readonly isRepeated: boolean;
  /**
   * Outcome. Failures of minions are results. Rejects only after an internal error of the master.
   */
  readonly outcome: Promise<PlanOutcome>;
  /** Returns the updates from the start. It can be called any number of times. */
  updates(): AsyncIterable<PlanUpdate>;
  /**
   * Cancels the plan: starts no further steps, ends active ones, and undoes completed steps unless
   * `undo` is false.
   */
  cancel(options?: { readonly undo?: boolean }): Promise<void>;
}

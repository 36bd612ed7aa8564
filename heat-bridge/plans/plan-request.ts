/** A call of a plan, and its results. */

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

const Text = Type.String();

/** Outcome of a step, or of undoing it. */
const StepOutcomeSchema = Type.Object({
  step: Text,
  command: Text,
  /** `skipped`: it was never begun. */
  status: Type.Enum(['succeeded', 'failed', 'skipped']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** Ids of its runs. */
  runs: Texts,
  /** For a person. */
  reason: Type.Optional(Text),
});

/** Outcome of a step, or of undoing it. */
export type StepOutcome = Readonly<Static<typeof StepOutcomeSchema>>;

/** Outcome of a plan. */
export const PlanOutcomeSchema = Type.Object({
  id: Text,
  plan: Text,
  /**
   * `partial`: only steps failed that need not succeed, and those that need them; `interrupted`:
   * the master ended meanwhile, and the same key continues it.
   */
  status: Type.Enum(['succeeded', 'partial', 'failed', 'timeout', 'cancelled', 'interrupted']),
  /** In an order in which each comes after what it needs. */
  steps: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** Steps that were undone, the latest first. */
  undone: Type.Unsafe<readonly StepOutcome[]>(Type.Array(StepOutcomeSchema)),
  /** The first step whose failure ended the plan. */
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
  /** Minions that it is for, and those of them that have a result and that succeeded. */
  minions: Type.Object({ ...counts, succeeded: Type.Integer() }),
  /** Steps of the plan, and those that have ended. */
  steps: Type.Object(counts),
  reason: Type.Optional(Text),
});

/** Doing a step, or undoing it. */
export type StepKind = Static<typeof Kind>;

/** Progress of a step. */
export type StepProgress = Readonly<Static<typeof StepProgressSchema>>;

/** Updates of a plan while it is under way; `outcome` is last. */
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

/** An update of a plan while it is under way; `outcome` is last. */
export type PlanUpdate = Readonly<Static<(typeof planUpdates)[number]>>;

/** A plan that was begun, or was there before under the same key. */
export interface PlanHandle {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Groups of which the caller's rights leave out minions that their targets may match. */
  readonly narrowed: readonly string[];
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

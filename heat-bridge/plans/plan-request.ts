/** A call of a plan, and its results. */

import type {
  CommandCaller,
  CommandRequest,
  CommandResult,
  CommandTarget,
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

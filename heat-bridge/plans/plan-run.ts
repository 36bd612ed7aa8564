/** A run of a plan, with its updates. */

import { TrackedRun, withoutReturn } from '../commands/tracked-run.ts';
import type { Groups } from './plan-groups.ts';
import type { PlanHandle, PlanOutcome, PlanUpdate } from './plan-request.ts';

/** Returns an outcome without the returns of minions. */
export function planOutcomeWithoutReturns(outcome: PlanOutcome): PlanOutcome {
  const short = (step: PlanOutcome['steps'][number]) => ({
    ...step,
    results: step.results.map(withoutReturn),
  });
  return { ...outcome, steps: outcome.steps.map(short), undone: outcome.undone.map(short) };
}

/** Options of a new run. */
export interface PlanRunOptions {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /**
   * Names of the groups from which minions were removed, because the caller has no rights on these
   * minions. Default: none.
   */
  readonly narrowed?: readonly string[] | undefined;
  /** Name of the caller. */
  readonly owner: string;
}

/** Run of a plan in this process. */
export class PlanRun extends TrackedRun<PlanUpdate, PlanOutcome> {
  readonly plan: string;
  readonly groups: Groups;
  readonly narrowed: readonly string[];
  #undoesOnCancel = true;

  constructor({ id, plan, groups, narrowed = [], owner }: PlanRunOptions) {
    super(id, owner);
    this.plan = plan;
    this.groups = groups;
    this.narrowed = narrowed;
  }

  /** Whether completed steps are undone after a cancellation. */
  override get undoesOnCancel(): boolean {
    return this.#undoesOnCancel;
  }

  /** Cancels the run. Only the first call determines whether completed steps are undone. */
  override cancel({ undo = true }: { readonly undo?: boolean } = {}): void {
    if (this.cancelled.aborted) return;
    this.#undoesOnCancel = undo;
    super.cancel();
  }

  protected override shortenUpdate(update: PlanUpdate): PlanUpdate {
    switch (update.type) {
      case 'result':
        return { ...update, result: withoutReturn(update.result) };
      case 'outcome':
        return { ...update, outcome: planOutcomeWithoutReturns(update.outcome) };
      default:
        return update;
    }
  }

  protected override shortenOutcome(outcome: PlanOutcome): PlanOutcome {
    return planOutcomeWithoutReturns(outcome);
  }

  handle(isRepeated: boolean): PlanHandle {
    const { id, plan, groups, narrowed } = this;
    const outcome = () => this.outcome;
    return {
      id,
      plan,
      groups,
      narrowed,
      isRepeated,
      // A handle must not keep the returns that the run drops.
      get outcome() {
        return outcome();
      },
      updates: () => this.updates(),
      cancel: async (options) => {
        this.cancel(options);
        await outcome();
      },
    };
  }
}

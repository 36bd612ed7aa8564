/** A run of a plan as its followers see it. */

import { TrackedRun } from '../commands/tracked-run.ts';
import type { Groups } from './plan-groups.ts';
import type { PlanHandle, PlanOutcome, PlanUpdate } from './plan-request.ts';

/** What a run of a plan is begun with. */
export interface PlanRunOptions {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Groups that the rights of the caller limited. Default: none. */
  readonly narrowed?: readonly string[] | undefined;
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a plan. */
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

  /** Whether whoever cancelled it wants to have taken back what is done. */
  override get undoesOnCancel(): boolean {
    return this.#undoesOnCancel;
  }

  /** The first to do so says whether anything is taken back. */
  override cancel({ undo = true }: { readonly undo?: boolean } = {}): void {
    if (this.cancelled.aborted) return;
    this.#undoesOnCancel = undo;
    super.cancel();
  }

  handle(isRepeated: boolean): PlanHandle {
    const { id, plan, groups, narrowed, outcome } = this;
    return {
      id,
      plan,
      groups,
      narrowed,
      isRepeated,
      outcome,
      updates: () => this.updates(),
      cancel: async (options) => {
        this.cancel(options);
        await outcome;
      },
    };
  }
}

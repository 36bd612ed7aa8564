/** A plan that goes on, as those who follow it see it. */
import { ToldUpdates } from '../run/told-updates.ts';
import type { Groups } from './groups.ts';
import type { PlanHandle, PlanOutcome, PlanUpdate } from './request.ts';

/** What a run of a plan is begun with. */
export interface LivePlanOptions {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  /** Name of whoever it is of. */
  readonly owner: string;
}

/** A run of a plan. */
export class LivePlan {
  readonly id: string;
  readonly plan: string;
  readonly groups: Groups;
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #told = new ToldUpdates<PlanUpdate, PlanOutcome>();
  #isInterrupted = false;
  #undoesOnCancel = true;

  constructor({ id, plan, groups, owner }: LivePlanOptions) {
    this.id = id;
    this.plan = plan;
    this.groups = groups;
    this.owner = owner;
  }

  get isOver(): boolean {
    return this.#told.isOver;
  }

  /** Whether it can be gone on with. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Fires when somebody wants it to end. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Whether whoever cancelled it wants to have taken back what is done. */
  get undoesOnCancel(): boolean {
    return this.#undoesOnCancel;
  }

  tell(update: PlanUpdate): void {
    this.#told.tell(update);
  }

  /** The last thing that is told. */
  end(outcome: PlanOutcome): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#told.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#told.fail(error);
  }

  /** The first to do so says whether anything is taken back. */
  cancel({ undo = true }: { readonly undo?: boolean } = {}): void {
    if (this.#cancel.signal.aborted) return;
    this.#undoesOnCancel = undo;
    this.#cancel.abort();
  }

  handle(isRepeated: boolean): PlanHandle {
    const { id, plan, groups } = this;
    const { outcome } = this.#told;
    return {
      id,
      plan,
      groups,
      isRepeated,
      outcome,
      updates: () => this.#told.updates(),
      cancel: async (options) => {
        this.cancel(options);
        await outcome;
      },
    };
  }
}

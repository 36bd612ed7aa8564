/** A run of a plan as it is stored. Its steps are stored as runs of commands. */

import type { Groups } from './plan-groups.ts';
import type { PlanOutcome } from './plan-request.ts';

/** A run of a plan. */
export interface StoredPlan {
  readonly id: string;
  /** Of the parameters and the groups. */
  readonly digest: string;
  readonly groups: Groups;
  /** Milliseconds since 1970. */
  readonly begunAt: number;
  /** Steps that were begun, those that ended among them. */
  readonly begun: readonly string[];
  /** Steps that ended, in the order in which they did. */
  readonly ended: readonly string[];
  /** Why it takes back what is done. Absent: it does not, yet. */
  readonly undoing?: PlanOutcome['status'];
  /** Absent: it is not over. */
  readonly outcome?: PlanOutcome;
}

/** Without what was returned, where that is too much. */
export function withoutPlanReturns({ outcome, ...plan }: StoredPlan): StoredPlan {
  if (outcome === undefined) return plan;
  const short = ({ results, ...step }: PlanOutcome['steps'][number]) => ({
    ...step,
    results: results.map(({ return: _, ...rest }) => rest),
  });
  const { steps, undone } = outcome;
  return { ...plan, outcome: { ...outcome, steps: steps.map(short), undone: undone.map(short) } };
}

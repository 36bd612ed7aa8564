import type { WorkBudget } from '#runtime';

/**
 * Counts the steps of reading stored data, and lets other work run if the slice is over. The steps
 * do not count towards the total of the budget, because they depend on the data and not on the
 * request.
 */
export async function giveWayAfter(budget: WorkBudget, steps: number): Promise<void> {
  budget.addToSlice(steps);
  if (budget.isSliceOver) await budget.giveWay();
}

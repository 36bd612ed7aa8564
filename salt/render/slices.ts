/** Work on pillar data in slices. Other work runs between the slices. */

import type { WorkBudget } from '#runtime';

/** Part of a {@link WorkBudget} that counts the steps of the current slice. */
export type Slices = Pick<WorkBudget, 'addToSlice' | 'isSliceOver'>;

/** Work that yields when its slice is over. */
export type Steps<T> = Generator<void, T, void>;

/** Work for one value, except for its characters, in steps of a {@link WorkBudget}. */
export const stepsPerValue = 100;

/** For work that runs in one go. */
export const oneSlice: Slices = { addToSlice: () => {}, isSliceOver: false };

/** Runs work in one go. */
export function runAtOnce<T>(work: Steps<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

/**
 * Runs work in slices.
 * @param budget - work budget that the work uses as its {@link Slices}. Its owner takes turns with
 * the owners of other work
 */
export async function runInSlices<T>(work: Steps<T>, budget: WorkBudget): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await budget.giveWay();
  }
}

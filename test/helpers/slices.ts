import { workSlices } from '#runtime/work-budget.ts';

/** Returns the steps of each slice, after which other work could run. */
export async function slicesOf(work: () => Promise<unknown>): Promise<number[]> {
  const slices: number[] = [];
  const note = (steps: unknown): unknown => slices.push(Number(steps));
  workSlices.subscribe(note);
  await work();
  workSlices.unsubscribe(note);
  return slices;
}

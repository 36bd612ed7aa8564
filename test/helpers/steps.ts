/**
 * Runs concurrent work step by step. A seed determines the order of the steps, so that a run can be
 * repeated.
 */

/** Scheduler of the steps. */
export interface Steps {
  /** Resolves when it is the caller's turn. */
  next(): Promise<void>;
  /**
   * Starts all work, and then runs one step after the other until all is done.
   * @throws the error of the work
   */
  run(works: readonly (() => Promise<unknown>)[]): Promise<void>;
}

export function createSteps(seed: number): Steps {
  const random = randomFrom(seed);
  const waiting: (() => void)[] = [];
  return {
    next: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
      }),
    run: async (works) => {
      let isOver = false;
      const all = Promise.all(works.map((work) => work())).finally(() => {
        isOver = true;
      });
      // The result is awaited below.
      all.catch(() => {});
      for (;;) {
        // All work proceeds until it waits for its next step.
        await new Promise(setImmediate);
        if (isOver) break;
        const [chosen] = waiting.splice(Math.floor(random() * waiting.length), 1);
        if (chosen === undefined) throw new Error('the work waits for itself');
        chosen();
      }
      await all;
    },
  };
}

/** Returns a generator of random numbers from 0 to 1 (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

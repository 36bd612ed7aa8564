/** Work that goes on one step at a time, in an order that a seed chooses: the same again each time. */

/** Where work waits for its next step. */
export interface Steps {
  /** Resolves when it is the caller's turn. */
  next(): Promise<void>;
  /** Begins all of it, and takes step after step until it is over. @throws what the work throws */
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
      // Looked at below.
      all.catch(() => {});
      for (;;) {
        // Everything that does not wait for a step goes as far as it can.
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

/** Numbers from 0 to 1 (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

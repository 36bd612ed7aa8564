/** Lets requests wait for the work of others whose result they may be able to use. */

/** Work in progress by key. */
export class OneAtATime {
  readonly #inProgress = new Map<string, Promise<unknown>>();
  readonly #maxWaitMs: number;

  /** @param maxWaitMs maximum time for which a request waits for others, in milliseconds */
  constructor(maxWaitMs: number) {
    this.#maxWaitMs = maxWaitMs;
  }

  /**
   * Returns a result that `find` finds, or works. While another request with the same key works,
   * waits for its result.
   */
  async run<T>(
    key: string,
    find: () => Promise<T | undefined>,
    work: () => Promise<T>,
  ): Promise<T> {
    const deadline = performance.now() + this.#maxWaitMs;
    for (;;) {
      const found = await find();
      if (found !== undefined) return found;
      const others = this.#inProgress.get(key);
      if (others === undefined) break;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return work();
      await settledWithin(others, leftMs);
    }
    const working = this.#afterFinding(find, work);
    this.#inProgress.set(key, working);
    try {
      return await working;
    } finally {
      this.#inProgress.delete(key);
    }
  }

  /** Works, unless another request has finished since the last search. */
  async #afterFinding<T>(find: () => Promise<T | undefined>, work: () => Promise<T>): Promise<T> {
    return (await find()) ?? work();
  }
}

/** Waits until work has settled, or for a limited time. */
async function settledWithin(work: Promise<unknown>, milliseconds: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  try {
    await Promise.race([work.catch(() => {}), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Lets requests wait for the work of others whose result they may be able to use. */

/** Work in progress by key. */
export class OneAtATime {
  readonly #inProgress = new Map<string, Promise<unknown>>();
  readonly #maxWaitMs: number;

  /**
   * @param maxWaitMs maximum time for which a request waits for one other request, in
   * milliseconds. Then one of the waiting requests works too. A request waits for all others for
   * up to ten times as long
   */
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
    const deadline = performance.now() + 10 * this.#maxWaitMs;
    for (;;) {
      const found = await find();
      if (found !== undefined) return found;
      const others = this.#inProgress.get(key);
      if (others === undefined) break;
      if (performance.now() > deadline) return work();
      const hasSettled = await settlesWithin(others, this.#maxWaitMs);
      if (!hasSettled && this.#inProgress.get(key) === others) break;
    }
    const working = this.#afterFinding(find, work);
    this.#inProgress.set(key, working);
    try {
      return await working;
    } finally {
      if (this.#inProgress.get(key) === working) this.#inProgress.delete(key);
    }
  }

  /** Works, unless another request has finished since the last search. */
  async #afterFinding<T>(find: () => Promise<T | undefined>, work: () => Promise<T>): Promise<T> {
    return (await find()) ?? work();
  }
}

/** Waits for a limited time. Returns whether the work has settled. */
async function settlesWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, milliseconds, false);
  });
  const settled = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

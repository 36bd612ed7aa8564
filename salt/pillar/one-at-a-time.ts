/** Lets a request wait for the work of another request if both may use the same result. */

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
   * Returns the result of `find`, or otherwise of `work`. If another request with the same key is
   * working, waits for it before the search.
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

  /** Calls `work`. If another request has finished since the last search, searches first. */
  async #afterFinding<T>(find: () => Promise<T | undefined>, work: () => Promise<T>): Promise<T> {
    return (await find()) ?? work();
  }
}

/** Waits for work for a limited time. Returns whether the work has ended. */
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

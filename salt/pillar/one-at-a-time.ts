/** Lets a request wait for the work of another request if both may use the same result. */

/** Maximum number of other requests whose results a request waits for. */
const maxOthers = 32;

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
   * @param isFutile whether no request can use the result of another one
   */
  async run<T>(
    key: string,
    find: () => Promise<T | undefined>,
    work: () => Promise<T>,
    isFutile: () => boolean = () => false,
  ): Promise<T> {
    const deadline = performance.now() + 10 * this.#maxWaitMs;
    for (let others = 0; ; others += 1) {
      const found = await find();
      if (found !== undefined) return found;
      if (isFutile() || others >= maxOthers) return work();
      const current = this.#inProgress.get(key);
      if (current === undefined) break;
      if (performance.now() > deadline) return work();
      const hasSettled = await settlesWithin(current, this.#maxWaitMs);
      if (!hasSettled && this.#inProgress.get(key) === current) break;
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

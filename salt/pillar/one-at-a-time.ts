/**
 * Makes a request wait while another request works with the same key. The waiting request then uses
 * the result of the other request.
 */

/** Maximum number of other requests that a request waits for, one after the other. */
const maxOthers = 32;

/** Work in progress by key. Requests with the same key wait for each other. */
export class OneAtATime {
  readonly #inProgress = new Map<string, Promise<unknown>>();
  readonly #maxWaitMs: number;

  /**
   * @param maxWaitMs - maximum time that a request waits for one other request, in milliseconds.
   * Then one of the waiting requests starts the work too. The total wait of a request is at most
   * ten times as long
   */
  constructor(maxWaitMs: number) {
    this.#maxWaitMs = maxWaitMs;
  }

  /**
   * Returns the result of `find`, or of `work` if nothing is found. While another request with the
   * same key works, waits and then calls `find` again.
   * @param isFutile - whether requests cannot use results of other requests; then no request waits
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

  /**
   * Calls `find` again, because another request may have finished, and then `work` if nothing is
   * found.
   */
  async #afterFinding<T>(find: () => Promise<T | undefined>, work: () => Promise<T>): Promise<T> {
    return (await find()) ?? work();
  }
}

/** Waits until work ends, for a limited time. Returns whether it has ended. */
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

/**
 * Makes a request wait while another request works with the same key. The waiting request then uses
 * the result of the other request.
 */

/** Maximum number of other requests that a request waits for, one after the other. */
const maxOthers = 32;

/**
 * Makes requests with the same key wait for each other, so that one request does the work and the
 * others can use its result.
 */
export class OneAtATime {
  readonly #inProgress = new Map<string, Map<string, Promise<unknown>>>();
  readonly #maxWaitMs: number;

  /**
   * @param maxWaitMs - maximum time that a request waits for the work of one other request, in
   * milliseconds. After this time, one of the waiting requests starts the same work too. A request
   * waits at most ten times this long in total
   */
  constructor(maxWaitMs: number) {
    this.#maxWaitMs = maxWaitMs;
  }

  /**
   * Returns the result of `find`, or the result of `work` if `find` returns `undefined`. If `work`
   * of another request with the same key is running, first waits for it, and then calls `find`
   * again. A request waits for each other owner at most once, so an owner with many requests does
   * not delay others. It may wait for its own owner repeatedly.
   * @param owner - minion that sent the request
   * @param isFutile - returns `true` if this request cannot use results of other requests. It then
   * does not wait
   */
  async run<T>(
    { key, owner }: { readonly key: string; readonly owner: string },
    find: () => Promise<T | undefined>,
    work: () => Promise<T>,
    isFutile: () => boolean = () => false,
  ): Promise<T> {
    const deadline = performance.now() + 10 * this.#maxWaitMs;
    const awaited = new Set<string>();
    for (let others = 0; ; others += 1) {
      const found = await find();
      if (found !== undefined) return found;
      if (isFutile() || others >= maxOthers) return work();
      const current = this.#next(key, owner, awaited);
      if (current === undefined) break;
      if (performance.now() > deadline) return work();
      const hasSettled = await settlesWithin(current.work, this.#maxWaitMs);
      if (current.owner !== owner) awaited.add(current.owner);
      else if (!hasSettled && this.#inProgress.get(key)?.get(owner) === current.work) break;
    }
    return this.#start(key, owner, this.#afterFinding(find, work));
  }

  /**
   * Returns the running work that a request must wait for next, or `undefined`. Work of the
   * request's own owner comes first, then work of any owner that is not in `awaited`.
   * @param awaited - other owners for which the request has waited already
   */
  #next(
    key: string,
    owner: string,
    awaited: ReadonlySet<string>,
  ): { readonly owner: string; readonly work: Promise<unknown> } | undefined {
    const running = this.#inProgress.get(key);
    const own = running?.get(owner);
    if (own !== undefined) return { owner, work: own };
    for (const [other, work] of running ?? []) {
      if (!awaited.has(other)) return { owner: other, work };
    }
    return undefined;
  }

  async #start<T>(key: string, owner: string, working: Promise<T>): Promise<T> {
    const running = this.#inProgress.get(key) ?? new Map<string, Promise<unknown>>();
    this.#inProgress.set(key, running.set(owner, working));
    try {
      return await working;
    } finally {
      if (running.get(owner) === working) running.delete(owner);
      const isLast = running.size === 0 && this.#inProgress.get(key) === running;
      if (isLast) this.#inProgress.delete(key);
    }
  }

  /**
   * Calls `find` again, because another request may have produced the result in the meantime. If
   * `find` returns nothing, calls `work`.
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

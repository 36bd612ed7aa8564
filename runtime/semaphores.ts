/**
 * Limits the number of concurrent tasks. Further tasks wait and start in the order of the calls.
 */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  readonly #permits: number;
  #free: number;

  constructor(permits: number) {
    this.#permits = permits;
    this.#free = permits;
  }

  /** Whether no task runs or waits. */
  get isIdle(): boolean {
    return this.#free === this.#permits;
  }

  /** Runs `work` when a permit is free. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/**
 * Limits the number of concurrent tasks for each key. A slow task delays only tasks with the same
 * key.
 */
export class KeyedSemaphore {
  readonly #permits: number;
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(permits: number) {
    this.#permits = permits;
  }

  /** Runs `work` when a permit is free for this key. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(key) ?? new Semaphore(this.#permits);
    this.#semaphores.set(key, semaphore);
    try {
      return await semaphore.run(work);
    } finally {
      if (semaphore.isIdle) this.#semaphores.delete(key);
    }
  }
}

/**
 * Runs tasks with the same key one after the other, in the order of the calls. Tasks with different
 * keys run concurrently.
 */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier tasks with this key have settled. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const current = before.then(work, work);
    this.#last.set(key, current);
    try {
      return await current;
    } finally {
      if (this.#last.get(key) === current) this.#last.delete(key);
    }
  }
}

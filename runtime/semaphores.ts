/** Lets so many through at a time; the others wait in the order in which they came. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  readonly #permits: number;
  #free: number;

  constructor(permits: number) {
    this.#permits = permits;
    this.#free = permits;
  }

  /** Whether nobody is through or waits. */
  get isIdle(): boolean {
    return this.#free === this.#permits;
  }

  /** Runs `work` once there is room. */
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

/** Lets so many through at a time for each key; a slow one delays only those of its key. */
export class KeyedSemaphore {
  readonly #permits: number;
  readonly #semaphores = new Map<string, Semaphore>();

  constructor(permits: number) {
    this.#permits = permits;
  }

  /** Runs `work` once there is room for this key. */
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

/** Runs work for the same key one after the other, in the order of the calls; other keys go on meanwhile. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` once all earlier work for this key has settled. */
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

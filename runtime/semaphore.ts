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

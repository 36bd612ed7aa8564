/**
 * Limits the number of running tasks of each owner. If a task with the same name is already
 * running, no second task is started. Both callers get the result of the running task, which counts
 * once.
 */
export class InFlight<T> {
  readonly #max: number;
  readonly #works = new Map<string, Map<string, Promise<T>>>();
  #unnamed = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Runs a task, or waits for the running task with the same name.
   * @param name - name of the task; `undefined`: the task always runs by itself
   * @returns the result of the task; `undefined` if the owner has reached the limit
   */
  async run(
    owner: string,
    name: string | undefined,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    const works = this.#works.get(owner) ?? new Map<string, Promise<T>>();
    const key = name ?? this.#nextName();
    const same = works.get(key);
    if (same !== undefined) return same;
    if (works.size >= this.#max) return undefined;
    const running = work();
    this.#works.set(owner, works.set(key, running));
    try {
      return await running;
    } finally {
      works.delete(key);
      if (works.size === 0) this.#works.delete(owner);
    }
  }

  #nextName(): string {
    this.#unnamed += 1;
    return `unnamed ${this.#unnamed}`;
  }
}

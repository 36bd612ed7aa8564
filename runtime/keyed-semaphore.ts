/** So many at a time for each name; a slow one makes only its own wait. */
export class Turns {
  readonly #most: number;
  readonly #busy = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Does the work when it is its turn at `name`. */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const busy = this.#busy.get(name) ?? 0;
    if (busy < this.#most) this.#busy.set(name, busy + 1);
    else await this.#wait(name);
    try {
      return await work();
    } finally {
      this.#pass(name);
    }
  }

  #wait(name: string): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(name) ?? [];
      waiting.push(resolve);
      this.#waiting.set(name, waiting);
    });
  }

  /** The turn goes to the next; only without one there is one fewer. */
  #pass(name: string): void {
    const waiting = this.#waiting.get(name);
    const next = waiting?.shift();
    if (waiting?.length === 0) this.#waiting.delete(name);
    if (next === undefined) this.#leave(name);
    else next();
  }

  #leave(name: string): void {
    const busy = (this.#busy.get(name) ?? 1) - 1;
    if (busy === 0) this.#busy.delete(name);
    else this.#busy.set(name, busy);
  }
}

/** How many things each owner may have under way at the same time. */
export class InFlight {
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Does the work; `undefined` if the owner has as many under way as it may. */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T | undefined> {
    const count = this.#counts.get(owner) ?? 0;
    if (count >= this.#max) return undefined;
    this.#counts.set(owner, count + 1);
    try {
      return await work();
    } finally {
      const left = (this.#counts.get(owner) ?? 1) - 1;
      if (left === 0) this.#counts.delete(owner);
      else this.#counts.set(owner, left);
    }
  }
}

/** How many things each owner may have under way at the same time; the same one twice is one. */
export class InFlight<T> {
  readonly #max: number;
  readonly #works = new Map<string, Map<string, Promise<T>>>();
  #unnamed = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Does the work, or waits for that of the same name which is under way.
   * @param name `undefined`: like no other
   * @returns `undefined` if the owner has as many under way as it may
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

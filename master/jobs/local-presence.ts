/** Milliseconds that a look at all minions is good for: many may be asked for at once. */
const lookMs = 1000;

/** The minions that are connected to this master, as of a moment ago. */
export class LocalPresence {
  readonly #present: () => readonly string[];
  #ids: ReadonlySet<string> = new Set();
  #lookedAt = -Infinity;

  constructor(present: () => readonly string[]) {
    this.#present = present;
  }

  has(id: string): boolean {
    if (performance.now() - this.#lookedAt >= lookMs) {
      this.#ids = new Set(this.#present());
      this.#lookedAt = performance.now();
    }
    return this.#ids.has(id);
  }
}

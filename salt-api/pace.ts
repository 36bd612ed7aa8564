/**
 * When streams write: at once after a silence, then at the same moments for all of them. What
 * happens between two moments is one write, and for all who read the same it is made once.
 */
export class Pace {
  readonly #milliseconds: number;
  #next: Promise<void> | undefined;

  /** @param milliseconds between two moments */
  constructor(milliseconds: number) {
    this.#milliseconds = milliseconds;
  }

  /** The next moment; the same for all who wait for it. */
  next(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setTimeout(() => {
        this.#next = undefined;
        resolve();
      }, this.#milliseconds);
    });
    return this.#next;
  }
}

/** Resources of a run, released together when it ends. */

/** Collects release functions. Calls each once, the latest first. */
export class Releases {
  #pending: (() => void)[] = [];

  add(release: () => void): void {
    this.#pending.push(release);
  }

  release(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const release of pending.reverse()) release();
  }
}

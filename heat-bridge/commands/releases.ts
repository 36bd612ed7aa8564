/** Resources that a run uses. They are released together when the run ends. */

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

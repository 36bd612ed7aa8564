/** Collects what must be closed, and closes it in the reverse order of opening. */
export class Closers {
  readonly #closers: (() => Promise<void> | void)[] = [];

  /** Notes how to close what was just opened, and gives it back. */
  add<T>(opened: T, close: (opened: T) => Promise<void> | void): T {
    this.#closers.push(() => close(opened));
    return opened;
  }

  /** Closes everything, also when something fails; then throws the first failure. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

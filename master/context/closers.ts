/** Closes a collection of resources in the reverse order of opening. */
export class Closers {
  readonly #closers: (() => Promise<void> | void)[] = [];

  /** Registers the function that closes an opened resource, and returns the resource. */
  add<T>(opened: T, close: (opened: T) => Promise<void> | void): T {
    this.#closers.push(() => close(opened));
    return opened;
  }

  /** Closes all resources, even if one fails. Then throws the first error. */
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

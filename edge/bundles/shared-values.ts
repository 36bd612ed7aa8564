/**
 * Shares values between all masters in one process, for example the parsed manifest of a site
 * bundle. Values that are derived from the same content are in memory only once.
 */

/**
 * Values by the digest of the content from which they are derived. A value is in memory as long as
 * a master refers to it. Nothing may change a shared value.
 */
export class SharedValues<T extends object> {
  readonly #values = new Map<string, WeakRef<T>>();
  readonly #unused = new FinalizationRegistry<string>((digest) => {
    if (this.#values.get(digest)?.deref() === undefined) this.#values.delete(digest);
  });

  /** Number of values in memory. */
  get size(): number {
    return this.#values.size;
  }

  /**
   * Returns the value derived from the content with this digest. All masters of the process share
   * it. Calls `derive` if no master uses it yet.
   * @param digest - digest of the content, which the caller has computed or verified
   * @param derive - derives the value. If it throws, nothing is shared
   */
  of(digest: string, derive: () => T): T {
    const known = this.#values.get(digest)?.deref();
    if (known !== undefined) return known;
    const value = derive();
    this.#values.set(digest, new WeakRef(value));
    this.#unused.register(value, digest);
    return value;
  }
}

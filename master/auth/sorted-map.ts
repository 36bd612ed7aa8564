/**
 * Map whose entries are listed in the order of their keys. After a change, a listing merges the
 * added keys into the previous order, and does not sort all keys again.
 */
export class SortedMap<Value> {
  readonly #compare: (a: string, b: string) => number;
  readonly #values = new Map<string, Value>();
  /** Keys at the last listing, in order. Some may have been deleted since, and added again. */
  #order: readonly string[] = [];
  /** Keys that were added since the last listing. */
  readonly #added = new Set<string>();
  #isChanged = false;

  constructor(compare: (a: string, b: string) => number) {
    this.#compare = compare;
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  /** Sets the value of a key. `undefined` deletes the key. */
  set(key: string, value: Value | undefined): void {
    const isPresent = this.#values.has(key);
    if (value === undefined) {
      this.#values.delete(key);
      this.#added.delete(key);
    } else {
      this.#values.set(key, value);
      if (!isPresent) this.#added.add(key);
    }
    if (isPresent !== (value !== undefined)) this.#isChanged = true;
  }

  /** Returns all keys, in order. The array stays the same object until a key is added or deleted. */
  keys(): readonly string[] {
    if (!this.#isChanged) return this.#order;
    // The engine finds the part that is in order, and compares each of its keys only once.
    const keys = [...this.#order, ...this.#added].sort(this.#compare);
    this.#order = keys.filter((key, at) => key !== keys[at - 1] && this.#values.has(key));
    this.#added.clear();
    this.#isChanged = false;
    return this.#order;
  }

  /** Returns all values, in the order of their keys. */
  values(): Value[] {
    const values: Value[] = [];
    for (const key of this.keys()) {
      const value = this.#values.get(key);
      if (value !== undefined) values.push(value);
    }
    return values;
  }
}

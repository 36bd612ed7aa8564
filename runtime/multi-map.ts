/**
 * A map with several values per key. If a key has a single value, which is the usual case, no set
 * is allocated.
 */
export class MultiMap<Key, Value extends object> {
  readonly #values = new Map<Key, Value | ValueSet<Value>>();

  /** Whether the key has at least one value. */
  has(key: Key): boolean {
    return this.#values.has(key);
  }

  /** Whether the key has this value. */
  includes(key: Key, value: Value): boolean {
    const held = this.#values.get(key);
    return held instanceof ValueSet ? held.values.has(value) : held === value;
  }

  /** Returns the values of a key. */
  get(key: Key): Iterable<Value> {
    const held = this.#values.get(key);
    if (held === undefined) return [];
    return held instanceof ValueSet ? held.values : [held];
  }

  /** Returns all values, grouped by key. */
  *all(): Iterable<Value> {
    for (const key of this.#values.keys()) yield* this.get(key);
  }

  /** Adds a value. Returns whether it is the first value of the key. */
  add(key: Key, value: Value): boolean {
    const held = this.#values.get(key);
    if (held instanceof ValueSet) held.values.add(value);
    else if (held !== value)
      this.#values.set(key, held === undefined ? value : new ValueSet([held, value]));
    return held === undefined;
  }

  /** Removes a value. Returns whether it was the last value of the key. */
  delete(key: Key, value: Value): boolean {
    const held = this.#values.get(key);
    if (held instanceof ValueSet) {
      held.values.delete(value);
      if (held.values.size > 0) return false;
    } else if (held !== value) {
      return false;
    }
    return this.#values.delete(key);
  }
}

class ValueSet<Value> {
  readonly values: Set<Value>;

  constructor(values: readonly Value[]) {
    this.values = new Set(values);
  }
}

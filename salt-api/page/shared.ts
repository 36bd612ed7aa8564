/** Something that is looked up at most so often, however many ask: all of them get the same. */
export class Shared<T> {
  readonly #look: () => Promise<T>;
  readonly #freshMs: number;
  readonly #now: () => number;
  #found: { readonly value: Promise<T>; readonly at: number } | undefined;

  /**
   * @param freshMs milliseconds for which what was found is given again
   * @param now milliseconds of a clock that only goes forward
   */
  constructor(
    look: () => Promise<T>,
    freshMs: number,
    now: () => number = () => performance.now(),
  ) {
    this.#look = look;
    this.#freshMs = freshMs;
    this.#now = now;
  }

  /** What was found a moment ago, or is found now; a look that fails is not kept. */
  get(): Promise<T> {
    const at = this.#now();
    if (this.#found !== undefined && at - this.#found.at < this.#freshMs) return this.#found.value;
    const value = this.#look();
    this.#found = { value, at };
    value.catch(() => this.forget());
    return value;
  }

  /** Who asks next looks again: something was changed. */
  forget(): void {
    this.#found = undefined;
  }
}

/** The same result for the same object, made once. */
export function onceForEach<T extends object, R>(make: (value: T) => R): (value: T) => R {
  const made = new WeakMap<T, { readonly result: R }>();
  return (value) => {
    const known = made.get(value) ?? { result: make(value) };
    made.set(value, known);
    return known.result;
  };
}

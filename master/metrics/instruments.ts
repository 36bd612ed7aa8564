/** What a master counts on its way: an addition each, no I/O and nothing that grows with minions. */

/** A value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/**
 * A count for each combination of labels. Labels are words of ours, or names from closed tables,
 * never a minion's text: the number of combinations is bounded by the program.
 */
export class Tally<L extends string> {
  readonly #labels: readonly L[];
  readonly #counts = new Map<string, { readonly values: readonly string[]; count: number }>();

  constructor(labels: readonly L[]) {
    this.#labels = labels;
  }

  /** Adds one. @param values one for each label, in their order */
  add(...values: string[]): void {
    const key = values.join(' ');
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { values, count: 1 });
    else known.count += 1;
  }

  samples(): Sample[] {
    return [...this.#counts.values()].map(({ values, count }) => ({
      labels: Object.fromEntries(this.#labels.map((label, index) => [label, values[index] ?? ''])),
      value: count,
    }));
  }
}

/** How many values there were up to each bound. */
export interface Distribution {
  readonly labels: Readonly<Record<string, string>>;
  /** Cumulative, in the order of the bounds; the last is for all that is greater. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Values by size: seconds, in buckets. */
export class Spread {
  readonly bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds upper ends of the buckets, ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const index = this.bounds.findIndex((bound) => value <= bound);
    const bucket = index === -1 ? this.bounds.length : index;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  distribution(labels: Readonly<Record<string, string>> = {}): Distribution {
    let total = 0;
    const counts = this.#counts.map((count) => {
      total += count;
      return total;
    });
    return { labels, counts, sum: this.#sum };
  }
}

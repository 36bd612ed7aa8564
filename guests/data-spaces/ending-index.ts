/**
 * Index that tests whether a text ends with one of many endings. The time for a test hardly depends
 * on the number of endings.
 */

export class EndingIndex {
  /**
   * Endings, sorted by their reversed texts. If one ending ends with another one, only the shorter
   * of the two is stored. A binary search therefore finds the only ending that can match a text.
   */
  readonly #sorted: readonly string[];

  constructor(endings: readonly string[]) {
    const shortest: string[] = [];
    for (const ending of endings.toSorted(compareFromEnd)) {
      const last = shortest.at(-1);
      if (last === undefined || !ending.endsWith(last)) shortest.push(ending);
    }
    this.#sorted = shortest;
  }

  /** Whether the text ends with one of the endings. */
  matches(text: string): boolean {
    let from = 0;
    let to = this.#sorted.length;
    while (from < to) {
      const middle = Math.floor((from + to) / 2);
      if (compareFromEnd(this.#sorted[middle] ?? '', text) <= 0) from = middle + 1;
      else to = middle;
    }
    const candidate = this.#sorted[from - 1];
    return candidate !== undefined && text.endsWith(candidate);
  }
}

/** Compares texts by their characters, from the last one to the first one. */
function compareFromEnd(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 1; at <= length; at += 1) {
    const difference = left.charCodeAt(left.length - at) - right.charCodeAt(right.length - at);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

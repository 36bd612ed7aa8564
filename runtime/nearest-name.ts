/**
 * Returns the known name that is most similar to `name`, if the difference looks like a typing
 * error.
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    // The edit distance is at least the difference in length. Checking it first matters, because a
    // client may send a very long name.
    if (Math.abs(name.length - candidate.length) > slips(name)) continue;
    const distance = editDistance(name, candidate);
    if (best === undefined || distance < best.distance) best = { candidate, distance };
  }
  if (best === undefined || best.distance > slips(name)) return undefined;
  return best.candidate;
}

/**
 * Returns the maximum edit distance that counts as a typing error. The maximum is higher for longer
 * names.
 */
function slips({ length }: string): number {
  return Math.max(Math.min(2, Math.floor(length / 2)), length / 3);
}

/**
 * Returns the number of insertions, deletions, substitutions and swaps of adjacent characters that
 * turn `a` into `b`.
 */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? (beforePrevious[j - 2] ?? 0) + 1 : substitution;
      row.push(Math.min(substitution, swap, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}

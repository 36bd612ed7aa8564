import { splitLines } from '#template';

/** Maximum number of lines that are compared. Further lines are ignored. */
const maxLines = 1000;

/** Number that stands for every line that does not occur in the first text. */
const unknown = -1;

/**
 * Returns a function that compares a second text with `first`. That function returns the differing
 * lines in order, with `-` before lines of the first text and `+` before lines of the second.
 */
export function lineDiffFrom(first: string): (second: string) => string {
  const left = splitLines(first, false, maxLines);
  // Equal lines get the same number, so that the algorithm compares numbers instead of texts.
  const numbers = new Map<string, number>();
  for (const line of left) if (!numbers.has(line)) numbers.set(line, numbers.size);
  const numbersOf = (lines: readonly string[]): Int32Array =>
    Int32Array.from(lines, (line) => numbers.get(line) ?? unknown);
  const leftNumbers = numbersOf(left);
  return (second) => {
    const right = splitLines(second, false, maxLines);
    const rightNumbers = numbersOf(right);
    const common = commonLengths(leftNumbers, rightNumbers);
    const width = right.length + 1;
    const lines: string[] = [];
    let [row, column] = [0, 0];
    while (row < left.length || column < right.length) {
      const isInBoth = row < left.length && column < right.length;
      if (isInBoth && leftNumbers[row] === rightNumbers[column]) {
        row += 1;
        column += 1;
        continue;
      }
      const below = common[(row + 1) * width + column] ?? 0;
      const beside = common[row * width + column + 1] ?? 0;
      if (row < left.length && (column === right.length || below >= beside)) {
        lines.push(`-${left[row]}`);
        row += 1;
      } else {
        lines.push(`+${right[column]}`);
        column += 1;
      }
    }
    return lines.join('\n');
  };
}

/** Computes the length of the longest common subsequence for each pair of suffixes. */
function commonLengths(left: Int32Array, right: Int32Array): Uint16Array {
  const width = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let row = left.length - 1; row >= 0; row -= 1) {
    for (let column = right.length - 1; column >= 0; column -= 1) {
      const below = lengths[(row + 1) * width + column] ?? 0;
      const beside = lengths[row * width + column + 1] ?? 0;
      const diagonal = lengths[(row + 1) * width + column + 1] ?? 0;
      lengths[row * width + column] =
        left[row] === right[column] ? diagonal + 1 : Math.max(below, beside);
    }
  }
  return lengths;
}

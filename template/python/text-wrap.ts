/** Implements `textwrap.wrap` for one line. Tabs and spaces remain unchanged. */

import { PythonException } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import { charactersOf, stripEnd, textLength } from './text.ts';

/** Options for wrapping a line. */
export interface WrapOptions {
  readonly width: number;
  readonly breakLongWords: boolean;
  readonly breakOnHyphens: boolean;
}

/** Matches the pieces of a line: words, parts of words up to a hyphen, and whitespace. */
const withHyphens =
  /[\t\n\v\f\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\v\f\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[^\d\W]-))(?=[^\d\W]-?[^\d\W])|(?=[\t\n\v\f\r ]|$)|(?<=[\w!"'&.,?])(?=-{2,}\w))/g;

/** Piece of a line. If a long word is broken, its rest is a piece too. */
interface Chunk {
  readonly text: string;
  /**
   * Length of the whitespace at the end of the piece, in UTF-16 code units. If the piece is broken
   * because it is too long, its rest keeps this value. A rest of at most this length is only
   * whitespace.
   */
  readonly spaces: number;
}

/**
 * Wraps a line. The work grows linearly with the length of the line.
 * @throws PythonException ValueError, LimitExceeded
 */
export function wrapLine(
  line: string,
  { width, breakLongWords, breakOnHyphens }: WrapOptions,
  meter: Pick<UsageMeter, 'step'>,
): string[] {
  if (width <= 0) throw new PythonException('ValueError', `invalid width ${width} (must be > 0)`);
  const chunks = chunksOf(line, breakOnHyphens).reverse();
  const lines: string[] = [];
  for (let last = chunks.at(-1); last !== undefined; last = chunks.at(-1)) {
    meter.step();
    if (lines.length > 0 && last.spaces >= last.text.length) chunks.pop();
    const current = takeLine(chunks, width);
    if (isLonger(chunks.at(-1)?.text ?? '', width))
      breakWord(chunks, current, width, { breakLongWords, breakOnHyphens });
    if (current.at(-1)?.trim() === '') current.pop();
    if (current.length > 0) lines.push(current.join(''));
  }
  return lines;
}

function chunksOf(line: string, breakOnHyphens: boolean): Chunk[] {
  const pieces = line.match(breakOnHyphens ? withHyphens : /[\t\n\v\f\r ]+|[^\t\n\v\f\r ]+/g) ?? [];
  return pieces.map((text) => ({ text, spaces: text.length - stripEnd(text).length }));
}

/** Whether a text has more than `width` characters. Does not read the rest of a long text. */
function isLonger(text: string, width: number): boolean {
  if (text.length <= width) return false;
  // A character has at most two UTF-16 units.
  return text.length > 2 * width || textLength(text) > width;
}

function takeLine(chunks: Chunk[], width: number): string[] {
  const current: string[] = [];
  let length = 0;
  for (let next = chunks.at(-1); next !== undefined; next = chunks.at(-1)) {
    if (isLonger(next.text, width - length)) break;
    current.push(next.text);
    length += textLength(next.text);
    chunks.pop();
  }
  return current;
}

function breakWord(
  chunks: Chunk[],
  current: string[],
  width: number,
  options: { readonly breakLongWords: boolean; readonly breakOnHyphens: boolean },
): void {
  const { text: word, spaces } = chunks.pop() ?? { text: '', spaces: 0 };
  const room = width - textLength(current.join(''));
  // The rest of the word is not read, because it is broken again in the next line.
  const cut = charactersOf(word.slice(0, 2 * room))
    .slice(0, room)
    .join('');
  if (options.breakLongWords) {
    const hyphen = options.breakOnHyphens ? cut.lastIndexOf('-') : -1;
    const end = hyphen > 0 && /[^-]/.test(word.slice(0, hyphen)) ? hyphen + 1 : cut.length;
    current.push(word.slice(0, end));
    chunks.push({ text: word.slice(end), spaces });
  } else if (current.length === 0) {
    current.push(word);
  } else {
    chunks.push({ text: word, spaces });
  }
}

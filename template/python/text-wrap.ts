/** Implements `textwrap.wrap` for one line. Tabs and spaces remain unchanged. */

import { PythonException } from './exceptions.ts';
import { charactersOf, isWhitespace, textLength } from './text.ts';

/** Options for wrapping a line. */
export interface WrapOptions {
  readonly width: number;
  readonly breakLongWords: boolean;
  readonly breakOnHyphens: boolean;
}

/** Matches the pieces of a line: words, parts of words up to a hyphen, and whitespace. */
const withHyphens =
  /[\t\n\v\f\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\v\f\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[^\d\W]-))(?=[^\d\W]-?[^\d\W])|(?=[\t\n\v\f\r ]|$)|(?<=[\w!"'&.,?])(?=-{2,}\w))/g;

/**
 * Wraps a line.
 * @throws PythonException ValueError
 */
export function wrapLine(
  line: string,
  { width, breakLongWords, breakOnHyphens }: WrapOptions,
): string[] {
  if (width <= 0) throw new PythonException('ValueError', `invalid width ${width} (must be > 0)`);
  const chunks = (
    line.match(breakOnHyphens ? withHyphens : /[\t\n\v\f\r ]+|[^\t\n\v\f\r ]+/g) ?? []
  ).reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    if (lines.length > 0 && isWhitespace(chunks.at(-1) ?? '')) chunks.pop();
    const current = takeLine(chunks, width);
    const next = chunks.at(-1) ?? '';
    if (textLength(next) > width)
      breakWord(chunks, current, width, { breakLongWords, breakOnHyphens });
    if (current.at(-1)?.trim() === '') current.pop();
    if (current.length > 0) lines.push(current.join(''));
  }
  return lines;
}

function takeLine(chunks: string[], width: number): string[] {
  const current: string[] = [];
  let length = 0;
  for (let next = chunks.at(-1); next !== undefined; next = chunks.at(-1)) {
    if (length + textLength(next) > width) break;
    current.push(next);
    length += textLength(next);
    chunks.pop();
  }
  return current;
}

function breakWord(
  chunks: string[],
  current: string[],
  width: number,
  options: { readonly breakLongWords: boolean; readonly breakOnHyphens: boolean },
): void {
  const word = chunks.pop() ?? '';
  const room = width - textLength(current.join(''));
  const all = charactersOf(word);
  const cut = all.slice(0, room).join('');
  if (options.breakLongWords) {
    const hyphen = options.breakOnHyphens ? cut.lastIndexOf('-') : -1;
    const end = hyphen > 0 && /[^-]/.test(word.slice(0, hyphen)) ? hyphen + 1 : cut.length;
    current.push(word.slice(0, end));
    chunks.push(word.slice(end));
  } else if (current.length === 0) {
    current.push(word);
  } else {
    chunks.push(word);
  }
}

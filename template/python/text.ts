/** Python's view of text: characters are code points, and white space is what Unicode says. */

import { PythonException } from './exceptions.ts';

const surrogate = /[\ud800-\udfff]/;
/** What `str.isspace` takes, as a character class. */
export const spaceClass: string =
  '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const leading = new RegExp(`^${spaceClass}+`);
const spaces = new RegExp(`^${spaceClass}+$`);
const isSpace = new RegExp(spaceClass);
const lineBreaks = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const lineBreak = new RegExp(`\\r\\n|[${lineBreaks}]`, 'g');

/** `len()`. */
export function textLength(text: string): number {
  return surrogate.test(text) ? Array.from(text).length : text.length;
}

/** The characters, one by one. */
export function charactersOf(text: string): string[] {
  return surrogate.test(text) ? Array.from(text) : text.split('');
}

/** What lies between two places, both counted in characters and inside of the text. */
export function textBetween(text: string, start: number, stop: number): string {
  if (!surrogate.test(text)) return text.slice(start, Math.max(start, stop));
  return Array.from(text).slice(start, Math.max(start, stop)).join('');
}

/** The number of characters before a place in the JavaScript string. */
export function characterIndex(text: string, index: number): number {
  return index <= 0 ? index : textLength(text.slice(0, index));
}

/** `str.isspace`. */
export function isWhitespace(text: string): boolean {
  return spaces.test(text);
}

/** `str.lstrip()`. */
export function stripStart(text: string): string {
  return text.replace(leading, '');
}

/** `str.rstrip()`. */
export function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace.test(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** `str.splitlines()`. */
export function splitLines(text: string, keepEnds = false): string[] {
  const lines: string[] = [];
  let start = 0;
  for (const match of text.matchAll(lineBreak)) {
    const end = match.index + match[0].length;
    lines.push(text.slice(start, keepEnds ? end : match.index));
    start = end;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** `str.split()` without a separator. */
export function splitWords(text: string, limit = -1): string[] {
  const words: string[] = [];
  let rest = stripStart(text);
  while (rest !== '' && (limit < 0 || words.length < limit)) {
    const end = rest.search(isSpace);
    words.push(end < 0 ? rest : rest.slice(0, end));
    rest = end < 0 ? '' : stripStart(rest.slice(end));
  }
  if (rest !== '') words.push(stripEnd(rest));
  return words;
}

// Upper and lower case, and the questions that `str` answers about characters.

const cased = /[\p{Uppercase}\p{Lowercase}\p{Lt}]/u;
const upper = /\p{Uppercase}/u;
const lower = /\p{Lowercase}/u;
const title = /\p{Lt}/u;

/** `str.title`: every letter after something that has no case. */
export function toTitle(text: string): string {
  let result = '';
  let isInside = false;
  for (const character of text) {
    result += isInside ? character.toLowerCase() : titleCharacter(character);
    isInside = cased.test(character);
  }
  return result;
}

/** `str.capitalize`. */
export function capitalize(text: string): string {
  const [first = ''] = text;
  return titleCharacter(first) + text.slice(first.length).toLowerCase();
}

/** The first of what upper case gives: `ß` becomes `Ss`. */
function titleCharacter(character: string): string {
  const [first = '', ...rest] = character.toUpperCase();
  return first + rest.join('').toLowerCase();
}

/** `str.swapcase`. */
export function swapCase(text: string): string {
  return charactersOf(text)
    .map((c) => (upper.test(c) ? c.toLowerCase() : lower.test(c) ? c.toUpperCase() : c))
    .join('');
}

/** `str.islower`: letters with case, and none of them upper. */
export function isLower(text: string): boolean {
  return lower.test(text) && !upper.test(text) && !title.test(text);
}

/** `str.isupper`. */
export function isUpper(text: string): boolean {
  return upper.test(text) && !lower.test(text) && !title.test(text);
}

/** `str.istitle`. */
export function isTitle(text: string): boolean {
  let wasCased = false;
  let hasCased = false;
  for (const character of text) {
    const isCapital = upper.test(character) || title.test(character);
    if (isCapital && wasCased) return false;
    if (lower.test(character) && !wasCased) return false;
    wasCased = cased.test(character);
    hasCased ||= wasCased;
  }
  return hasCased;
}

/** The questions that are about every character, for a text that is not empty. */
export const characterTests: Readonly<Record<string, (text: string) => boolean>> = {
  isalnum: (text) => /^[\p{L}\p{Nd}\p{Nl}\p{No}]+$/u.test(text),
  isalpha: (text) => /^\p{L}+$/u.test(text),
  isdecimal: (text) => /^\p{Nd}+$/u.test(text),
  isdigit: (text) => /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u.test(text),
  isnumeric: (text) => /^[\p{Nd}\p{Nl}\p{No}]+$/u.test(text),
  isidentifier: (text) => isIdentifier(text),
  isspace: isWhitespace,
};

/** `str.isidentifier`. */
export function isIdentifier(text: string): boolean {
  return /^[\p{ID_Start}_][\p{ID_Continue}]*$/u.test(text);
}

// `textwrap.wrap` for one line, tabs and spaces left as they are.

/** How a line is wrapped. */
export interface WrapOptions {
  readonly width: number;
  readonly breakLongWords: boolean;
  readonly breakOnHyphens: boolean;
}

/** Words with the hyphens that may end a line, and the space between them. */
const withHyphens =
  /[\t\n\v\f\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\v\f\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[^\d\W]-))(?=[^\d\W]-?[^\d\W])|(?=[\t\n\v\f\r ]|$)|(?<=[\w!"'&.,?])(?=-{2,}\w))/g;

/** @throws PythonException ValueError */
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

/**
 * This module implements text functions of Python: characters are code points, and whitespace is
 * defined by Unicode.
 */

const surrogate = /[\ud800-\udfff]/;
/** Content of a character class for the characters of `str.isspace`. */
export const spaceClass: string =
  '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const leading = new RegExp(`^${spaceClass}+`);
const spaces = new RegExp(`^${spaceClass}+$`);
const isSpace = new RegExp(spaceClass);
const lineBreaks = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const lineBreak = new RegExp(`\\r\\n|[${lineBreaks}]`, 'g');

/** Implements `len()`. */
export function textLength(text: string): number {
  return surrogate.test(text) ? Array.from(text).length : text.length;
}

/** Returns the characters of a text. */
export function charactersOf(text: string): string[] {
  return surrogate.test(text) ? Array.from(text) : text.split('');
}

/** Returns the text between two positions, counted in characters. */
export function textBetween(text: string, start: number, stop: number): string {
  if (!surrogate.test(text)) return text.slice(start, Math.max(start, stop));
  return Array.from(text).slice(start, Math.max(start, stop)).join('');
}

/** Converts an index of a JavaScript string to a number of characters. */
export function characterIndex(text: string, index: number): number {
  return index <= 0 ? index : textLength(text.slice(0, index));
}

/** Implements `str.isspace`. */
export function isWhitespace(text: string): boolean {
  return spaces.test(text);
}

/** Implements `str.lstrip()`. */
export function stripStart(text: string): string {
  return text.replace(leading, '');
}

/** Implements `str.rstrip()`. */
export function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace.test(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/**
 * Implements `str.splitlines()`.
 * @param limit - maximum number of lines to return. The text after them is not read. Default: all
 */
export function splitLines(text: string, keepEnds = false, limit = Infinity): string[] {
  const lines: string[] = [];
  let start = 0;
  for (const match of text.matchAll(lineBreak)) {
    const end = match.index + match[0].length;
    lines.push(text.slice(start, keepEnds ? end : match.index));
    if (lines.length >= limit) return lines;
    start = end;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** Implements `str.split()` without a separator. */
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

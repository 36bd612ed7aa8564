/** Case conversion and character tests of `str`. */

import { charactersOf, isWhitespace } from './text.ts';

const cased = /[\p{Uppercase}\p{Lowercase}\p{Lt}]/u;
const upper = /\p{Uppercase}/u;
const lower = /\p{Lowercase}/u;
const title = /\p{Lt}/u;

/** Implements `str.title`: capitalizes every letter after an uncased character. */
export function toTitle(text: string): string {
  let result = '';
  let isInside = false;
  for (const character of text) {
    result += isInside ? character.toLowerCase() : titleCharacter(character);
    isInside = cased.test(character);
  }
  return result;
}

/** Implements `str.capitalize`. */
export function capitalize(text: string): string {
  const [first = ''] = text;
  return titleCharacter(first) + text.slice(first.length).toLowerCase();
}

/** Converts a character to title case: `ß` becomes `Ss`. */
function titleCharacter(character: string): string {
  const [first = '', ...rest] = character.toUpperCase();
  return first + rest.join('').toLowerCase();
}

/** Implements `str.swapcase`. */
export function swapCase(text: string): string {
  return charactersOf(text)
    .map((c) => (upper.test(c) ? c.toLowerCase() : lower.test(c) ? c.toUpperCase() : c))
    .join('');
}

/** Implements `str.islower`: at least one cased letter, and none in upper case. */
export function isLower(text: string): boolean {
  return lower.test(text) && !upper.test(text) && !title.test(text);
}

/** Implements `str.isupper`. */
export function isUpper(text: string): boolean {
  return upper.test(text) && !lower.test(text) && !title.test(text);
}

/** Implements `str.istitle`. */
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

/**
 * Python's methods `str.is…` that test every character of a text, by name. The texts are not empty.
 */
export const characterTests: Readonly<Record<string, (text: string) => boolean>> = {
  isalnum: (text) => /^[\p{L}\p{Nd}\p{Nl}\p{No}]+$/u.test(text),
  isalpha: (text) => /^\p{L}+$/u.test(text),
  isdecimal: (text) => /^\p{Nd}+$/u.test(text),
  isdigit: (text) => /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u.test(text),
  isnumeric: (text) => /^[\p{Nd}\p{Nl}\p{No}]+$/u.test(text),
  isidentifier: (text) => isIdentifier(text),
  isspace: isWhitespace,
};

/** Implements `str.isidentifier`. */
export function isIdentifier(text: string): boolean {
  return /^[\p{ID_Start}_][\p{ID_Continue}]*$/u.test(text);
}

/** What is wrong with the YAML of a file, in words and with a mark at the place. */

import type { YAMLError } from 'yaml';

/** The parser's own texts quote the file, which may hold a secret. */
const words: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias (*name) can have no anchor and no tag',
  BAD_ALIAS: '* begins an alias, and nothing has this name; put text that begins with * in quotes',
  BAD_DIRECTIVE: '% begins a directive; put text that begins with % in quotes',
  BAD_DQ_ESCAPE: 'a backslash in double quotes says nothing here; double it, or use single quotes',
  BAD_INDENT: 'the line is not indented like the others of its map, list or text',
  BAD_PROP_ORDER: 'anchors and tags stand directly before their value',
  BAD_SCALAR_START: 'no text begins with this character; put the text in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a map cannot begin here; put text that has ": " in it in quotes',
  BLOCK_IN_FLOW: 'a map or list of several lines cannot stand within [ ] or { }',
  DUPLICATE_KEY: 'the key stands twice in its map; remove one of the two',
  KEY_OVER_1024_CHARS: 'a key has more than 1,024 characters',
  MISSING_CHAR: 'a character is missing before this place',
  MULTILINE_IMPLICIT_KEY: 'a key is expected here, and it ends with : on its own line',
  MULTIPLE_ANCHORS: 'a value can have one anchor',
  MULTIPLE_DOCS: 'a second document begins here (---); a file has one',
  MULTIPLE_TAGS: 'a value can have one tag',
  RESOURCE_EXHAUSTION: 'maps and lists are nested too deeply',
  TAB_AS_INDENT: 'a tab cannot indent a line; use blanks',
  TAG_RESOLVE_FAILED: 'tags (!name) are not taken; put text that begins with ! in quotes',
  UNEXPECTED_TOKEN: 'this was not expected here; text with such characters is put in quotes',
};

/** What the parser says of characters that are missing; none of this is text of the file. */
const missing: readonly (readonly [RegExp, string])[] = [
  [/^Missing closing ["']quote/, 'the quote that begins the text is not closed'],
  [/^Flow map /, 'a { is not closed by } on the lines of its value'],
  [/^Flow sequence /, 'a [ is not closed by ] on the lines of its value'],
  [/^Missing , /, 'a comma is missing before this place'],
];

/** An error of the parser, in words. */
export function describeYamlProblem({ code, message }: YAMLError): string {
  const [, ofMissing] = missing.find(([form]) => form.test(message)) ?? [];
  return ofMissing ?? words[code] ?? 'it cannot be read';
}

/** Longer lines are shown around the place. */
const maxWidth = 100;

/** The line with a mark below the place. Letters and digits of values are not shown. */
export function markPosition(
  text: string,
  { line, col }: { readonly line: number; readonly col: number },
): string {
  const whole = hideValues(text.split(/\r\n|\n|\r/)[line - 1] ?? '');
  const start = Math.max(0, Math.min(col - maxWidth / 2, whole.length - maxWidth));
  const shown = whole.slice(start, start + maxWidth);
  const margin = String(line).padStart(6);
  const mark = ' '.repeat(Math.max(0, Math.min(col - 1 - start, maxWidth)));
  return `${margin} | ${shown}\n${' '.repeat(margin.length)} | ${mark}^`;
}

/** Leaves keys, blanks and the characters that mean something to YAML; the rest becomes `x`. */
function hideValues(line: string): string {
  let hidden = '';
  let at = 0;
  for (const { index, 0: key } of line.matchAll(
    /(?<=^\s*|[{,]\s*|^[\s-]*-\s+)[\w.-]+(?=\s*:(?:\s|$))/g,
  )) {
    hidden += hide(line.slice(at, index)) + key;
    at = index + key.length;
  }
  return hidden + hide(line.slice(at));
}

function hide(text: string): string {
  return text.replace(/[^\s'"[\]{},:#&*!|>%@`\\-]/g, 'x').replaceAll('\t', '→');
}

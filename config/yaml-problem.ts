/** Describes mistakes in a YAML file, and marks their position in the line. */

import type { YAMLError } from 'yaml';

/**
 * Messages for the parser's error codes. The parser's own messages quote the file, which may
 * contain a secret.
 */
const words: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias (*name) cannot have an anchor or a tag',
  BAD_ALIAS:
    '* begins an alias, but its anchor does not exist; put text that begins with * in quotes',
  BAD_DIRECTIVE: '% begins a directive; put text that begins with % in quotes',
  BAD_DQ_ESCAPE: 'invalid escape in double quotes: write the backslash twice, or use single quotes',
  BAD_INDENT: 'the line is not indented like the others of its map, list or text',
  BAD_PROP_ORDER: 'anchors and tags must stand directly before their value',
  BAD_SCALAR_START: 'text cannot begin with this character: put the text in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a map cannot begin here: put text that contains ": " in quotes',
  BLOCK_IN_FLOW: 'a map or list of several lines cannot stand within [ ] or { }',
  DUPLICATE_KEY: 'duplicate key in a map: remove one of the two',
  KEY_OVER_1024_CHARS: 'a key is longer than 1,024 characters',
  MISSING_CHAR: 'a character is missing before this place',
  MULTILINE_IMPLICIT_KEY: 'expected a key that ends with : on the same line',
  MULTIPLE_ANCHORS: 'a value can have only one anchor',
  MULTIPLE_DOCS: 'a second document begins here (---), but only one is permitted',
  MULTIPLE_TAGS: 'a value can have only one tag',
  RESOURCE_EXHAUSTION: 'maps and lists are nested too deeply',
  TAB_AS_INDENT: 'a tab cannot indent a line; use spaces',
  TAG_RESOLVE_FAILED: 'tags (!name) are not supported: put text that begins with ! in quotes',
  UNEXPECTED_TOKEN: 'unexpected text: put text with such characters in quotes',
};

/**
 * Patterns for messages of the YAML parser about missing characters, each with the text that
 * replaces the message.
 */
const missing: readonly (readonly [RegExp, string])[] = [
  [/^Missing closing ["']quote/, 'the quote that begins the text is not closed'],
  [/^Flow map /, 'a { is not closed by } on the lines of its value'],
  [/^Flow sequence /, 'a [ is not closed by ] on the lines of its value'],
  [/^Missing , /, 'a comma is missing before this place'],
];

/** Returns a description of a parser error. */
export function describeYamlProblem({ code, message }: YAMLError): string {
  const [, ofMissing] = missing.find(([form]) => form.test(message)) ?? [];
  return ofMissing ?? words[code] ?? 'the text cannot be parsed';
}

/**
 * Maximum width of a quoted line, in characters. If a line is longer, only the part around the
 * mistake is quoted.
 */
const maxWidth = 100;

/** Returns the line with a mark below the position. Letters and digits of values are hidden. */
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

/** Replaces the characters of values with `x`. Keys, spaces and YAML syntax are unchanged. */
function hideValues(line: string): string {
  let hidden = '';
  let at = 0;
  for (const { index, 0: begin, 1: key = '' } of line.matchAll(
    /(?:^(?:[\s-]*\s)?|[{,]\s*)([\w.-]+)(?=\s*:(?:\s|$))/g,
  )) {
    const end = index + begin.length;
    hidden += hide(line.slice(at, end - key.length)) + key;
    at = end;
  }
  return hidden + hide(line.slice(at));
}

function hide(text: string): string {
  return text.replace(/[^\s'"[\]{},:#&*!|>%@`\\-]/g, 'x').replaceAll('\t', '→');
}

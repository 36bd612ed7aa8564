/**
 * Makes text from minions safe to show: nothing in it can steer a terminal or look like a line
 * of its own [THREATS M-19].
 */

/** Controls (but for the tab), line separators, and marks that turn the direction of writing. */
const unsafe = /(?!\t)[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

/** The same beyond the range that JSON escapes itself. */
const unsafeInJson = /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/** One line of a value. The escape character becomes `?`, as in Salt; others `\xNN`. */
export function escapeLine(text: string): string {
  // protection: terminal
  return text.replaceAll('\x1b', '?').replace(unsafe, toEscape);
}

/** Text of several lines; each stays one. */
export function escapeLines(text: string): string {
  return text.split('\n').map(escapeLine).join('\n');
}

/** A name (id, tag, key): stays on its line and shows what it holds. */
export function escapeName(text: string): string {
  return text.replaceAll('\t', '\\t').replaceAll('\n', '\\n').replace(unsafe, toEscape);
}

/** JSON text: the same document, but printable. */
export function escapeJson(json: string): string {
  return json.replace(unsafeInJson, (character) => `\\u${hex(character, 4)}`);
}

function toEscape(character: string): string {
  return character.charCodeAt(0) > 0xff ? `\\u${hex(character, 4)}` : `\\x${hex(character, 2)}`;
}

function hex(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0');
}

/** The syntax of the two engines that run translated expressions. */

/** One engine's words for what means the same in none of its syntax and Python's. */
export interface RegexDialect {
  /** One character, whatever it means to the engine otherwise. */
  character(codePoint: number): string;
  /** Begins a group with a name. */
  namedGroup(name: string): string;
  readonly textStart: string;
  readonly textEnd: string;
  /** The end, or before a newline there: Python's `$`. */
  readonly lastLineEnd: string;
  readonly lineStart: string;
  readonly lineEnd: string;
  readonly any: string;
}

const plain = /^[A-Za-z0-9]$/;

/** RE2's, whose matching takes time in proportion to the text; no lookaround, no back-references. */
export const linearDialect: RegexDialect = {
  character: (codePoint) => write(codePoint, (hex) => `\\x{${hex}}`),
  namedGroup: (name) => `(?P<${name}>`,
  textStart: '\\A',
  textEnd: '\\z',
  lastLineEnd: '(?:\\n?\\z)',
  lineStart: '(?m:^)',
  lineEnd: '(?m:$)',
  any: '(?s:.)',
};

/** ECMAScript's, with the flag `u`. Its own `.`, `^` and `$` know more newlines than Python's. */
export const backtrackingDialect: RegexDialect = {
  character: (codePoint) => write(codePoint, (hex) => `\\u{${hex}}`),
  namedGroup: (name) => `(?<${name}>`,
  textStart: '(?<![^])',
  textEnd: '(?![^])',
  lastLineEnd: '(?=\\n?(?![^]))',
  lineStart: '(?<=\\n|(?<![^]))',
  lineEnd: '(?=\\n|(?![^]))',
  any: '[^]',
};

function write(codePoint: number, encode: (hex: string) => string): string {
  const character = String.fromCodePoint(codePoint);
  return plain.test(character) ? character : encode(codePoint.toString(16));
}

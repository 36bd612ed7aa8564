/** Syntax of RE2 and of ECMAScript, for constructs that differ from Python's. */

/** Syntax of a regular expression engine, for constructs that differ from Python's. */
export interface RegexDialect {
  /** Returns the pattern for one character, escaped if it has a special meaning. */
  character(codePoint: number): string;
  /** Returns the beginning of a named group. */
  namedGroup(name: string): string;
  readonly textStart: string;
  readonly textEnd: string;
  /**
   * Pattern for the end of the text, or the position before a newline at the end, like Python's
   * `$`.
   */
  readonly lastLineEnd: string;
  readonly lineStart: string;
  readonly lineEnd: string;
  readonly any: string;
}

const plain = /^[A-Za-z0-9]$/;

/** Syntax of RE2, which matches in linear time. It has no lookaround and no back-references. */
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

/**
 * Syntax of ECMAScript with the flag `u`. Its own `.`, `^` and `$` are not used, because they
 * recognise more newlines than Python's.
 */
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

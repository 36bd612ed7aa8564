/** Decodes string literals like Python's `unicode-escape`. */

import { PythonException } from '../python/exceptions.ts';
import { toAscii } from '../python/format-percent.ts';

/** A syntax error and the line on which it occurred. */
export class JinjaSyntaxError extends PythonException {
  static {
    JinjaSyntaxError.prototype.name = JinjaSyntaxError.name;
  }

  readonly line: number;

  constructor(message: string, line: number, kind = 'TemplateSyntaxError') {
    super(kind, message);
    this.line = line;
  }
}

const simple: Readonly<Record<string, string>> = {
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
const escapeForm = /\\(?:([0-7]{1,3})|x(.{0,2})|u(.{0,4})|U(.{0,8})|(.))/gsu;

/**
 * Decodes a literal.
 * @throws JinjaSyntaxError for an incomplete escape
 */
export function literalText(text: string, line: number): string {
  if (!text.includes('\\')) return text;
  return text.replace(escapeForm, (whole, octal, byte, short, long, character) => {
    if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
    if (character === undefined) return fromHex(whole, byte ?? short ?? long ?? '', line);
    if (character === 'N') {
      throw new JinjaSyntaxError('named characters (\\N{…}) are not supported', line);
    }
    const known = simple[character];
    // As in Python, a backslash before a non-ASCII character gives the text of the escape sequence:
    // `\é` becomes the four characters `\xe9`.
    return known ?? (character < '\x80' ? whole : toAscii(character));
  });
}

const widths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

function fromHex(whole: string, digits: string, line: number): string {
  const type = whole.charAt(1);
  const width = widths[type] ?? 0;
  const code = Number.parseInt(digits, 16);
  if (digits.length !== width || !/^[0-9a-fA-F]+$/.test(digits)) {
    throw new JinjaSyntaxError(`truncated \\${type}${'X'.repeat(width)} escape`, line);
  }
  if (code > 0x10ffff) throw new JinjaSyntaxError('illegal Unicode character', line);
  return String.fromCodePoint(code);
}

/** This module writes quoted scalars like PyYAML's emitter, without folding lines. */

const short: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\x07': '\\a',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\v': '\\v',
  '\f': '\\f',
  '\r': '\\r',
  '\x1b': '\\e',
  '"': '\\"',
  '\\': '\\\\',
  '\x85': '\\N',
  '\xa0': '\\_',
  '\u2028': '\\L',
  '\u2029': '\\P',
};

/** Writes a text in double quotes. With `unicode`, non-ASCII characters are not escaped. */
export function doubleQuoted(text: string, unicode = false): string {
  let quoted = '';
  for (const character of text) quoted += escapeCharacter(character, unicode);
  return `"${quoted}"`;
}

/** Escapes a character for double quotes if necessary. */
export function escapeCharacter(character: string, unicode: boolean): string {
  if (unicode && character === '\xa0') return character;
  const known = short[character];
  if (known !== undefined) return known;
  if (character >= ' ' && character <= '~') return character;
  if (unicode && /[\xa1-\ud7ff\ue000-\ufefe\uff00-\ufffd]/.test(character)) return character;
  // Characters beyond the basic multilingual plane are treated as not printable.
  return escapeSequence(character);
}

/** Returns the escape sequence of a character. */
function escapeSequence(character: string): string {
  const known = short[character];
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16).toUpperCase();
  if (code <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Writes a text in single quotes. Line breaks are doubled. */
export function singleQuoted(text: string): string {
  const doubled = text.replaceAll("'", "''");
  return `'${doubled.replace(/[\n\x85\u2028\u2029]+/g, (breaks) => (breaks.startsWith('\n') ? '\n' : '') + breaks)}'`;
}

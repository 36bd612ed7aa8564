/** Quoted scalars as PyYAML's emitter writes them, without folding lines. */

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

/** A text between double quotes. With `unicode`, characters beyond ASCII stay as they are. */
export function doubleQuoted(text: string, unicode = false): string {
  let quoted = '';
  for (const character of text) quoted += escapeCharacter(character, unicode);
  return `"${quoted}"`;
}

/** A character as it stands between double quotes. */
export function escapeCharacter(character: string, unicode: boolean): string {
  if (unicode && character === '\xa0') return character;
  const known = short[character];
  if (known !== undefined) return known;
  if (character >= ' ' && character <= '~') return character;
  if (unicode && /[\xa1-\ud7ff\ue000-\ufefe\uff00-\ufffd]/.test(character)) return character;
  // No character beyond the basic plane is taken for printable.
  return escapeSequence(character);
}

/** A character as an escape between double quotes. */
function escapeSequence(character: string): string {
  const known = short[character];
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16).toUpperCase();
  if (code <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** A text between single quotes: every line break is written twice. */
export function singleQuoted(text: string): string {
  const doubled = text.replaceAll("'", "''");
  return `'${doubled.replace(/[\n\x85\u2028\u2029]+/g, (breaks) => (breaks.startsWith('\n') ? '\n' : '') + breaks)}'`;
}

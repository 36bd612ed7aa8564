/** How Python writes numbers, bytes and lines: Salt's outputters show what Python shows. */

/**
 * `repr()` of a number. A number without fraction is shown as an integer: the wire's values do
 * not tell 1.0 from 1.
 */
export function pythonNumber(value: number | bigint): string {
  if (typeof value === 'bigint') return String(value);
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  return Number.isSafeInteger(value) ? String(value) : pythonFloat(value);
}

/** Python writes an exponent below 1e-4 and from 1e16 on, with a sign and two digits. */
function pythonFloat(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 1e-4 && magnitude < 1e16) {
    return Number.isInteger(value) ? value.toFixed(1) : String(value);
  }
  const [mantissa, exponent = ''] = value.toExponential().split('e');
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

/** `repr()` of bytes: `b'…'`. */
export function pythonBytes(bytes: Uint8Array): string {
  const quote = bytes.includes(0x27) && !bytes.includes(0x22) ? '"' : "'";
  return `b${quote}${Array.from(bytes, (byte) => pythonByte(byte, quote)).join('')}${quote}`;
}

function pythonByte(byte: number, quote: string): string {
  const character = String.fromCharCode(byte);
  if (character === quote || character === '\\') return `\\${character}`;
  if (character === '\t') return '\\t';
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (byte >= 0x20 && byte < 0x7f) return character;
  return `\\x${byte.toString(16).padStart(2, '0')}`;
}

/** `str.splitlines()`: more breaks than `\n`, and none at the end. */
export function pythonLines(text: string): string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: Python breaks lines at them
  const lines = text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** Python compares text by code points, JavaScript by UTF-16 units. */
export function compareCodePoints(left: string, right: string): number {
  const rest = right[Symbol.iterator]();
  for (const character of left) {
    const other = rest.next();
    if (other.done) return 1;
    if (character === other.value) continue;
    return (character.codePointAt(0) ?? 0) - (other.value.codePointAt(0) ?? 0);
  }
  return rest.next().done ? 0 : -1;
}

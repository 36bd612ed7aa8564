/** How Python writes values: `repr()` and `str()`, for outputters that show them so. */
import { WireDateTime, WireExtension, type WireValue } from '../../minion-protocol/index.ts';
import { mapEntries } from './map-entries.ts';
import { pythonBytes, pythonNumber } from './python.ts';

/** What Python does not take as printable, but for the space [str.isprintable]. */
const unprintable = /[\\'"]|(?! )[\p{C}\p{Z}]/u;

/** `repr()` of a value. */
export function pythonRepr(value: WireValue): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number' || typeof value === 'bigint') return pythonNumber(value);
  if (typeof value === 'string') return pythonQuoted(value);
  if (value instanceof Uint8Array) return pythonBytes(value);
  if (value instanceof WireDateTime) return pythonQuoted(value.text);
  if (value instanceof WireExtension) return pythonRepr([value.code, value.data]);
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(', ')}]`;
  const entries = mapEntries(value) ?? [];
  return `{${entries.map(([key, item]) => `${pythonRepr(key)}: ${pythonRepr(item)}`).join(', ')}}`;
}

/** `str()` of a value: text as it is, everything else as `repr()` has it. */
export function pythonStr(value: WireValue): string {
  if (value instanceof WireDateTime) return value.text;
  return typeof value === 'string' ? value : pythonRepr(value);
}

/** `repr()` of text. */
function pythonQuoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  return `${quote}${Array.from(text, (character) => escaped(character, quote)).join('')}${quote}`;
}

function escaped(character: string, quote: string): string {
  if (!unprintable.test(character)) return character;
  if (character === quote || character === '\\') return `\\${character}`;
  if (character === '"' || character === "'") return character;
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (character === '\t') return '\\t';
  const code = character.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${hex(code, 2)}`;
  return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

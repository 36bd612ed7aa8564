/**
 * Python's `str()` of a value, which is what Salt compares grains and pillar by
 * [salt/utils/data.py subdict_match]. The wire's values do not tell 1.0 from 1: both are `1`.
 */
import { WireDateTime, WireExtension, type WireMap, type WireValue } from '../payload.ts';

/** `str(value)`. */
export function pythonStr(value: WireValue): string {
  if (typeof value === 'string') return value;
  if (value instanceof WireDateTime) return value.text.replace('T', ' ').replace(/\.0{6}$/, '');
  return pythonRepr(value);
}

function pythonRepr(value: WireValue): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return numberRepr(value);
  if (typeof value === 'string') return quoted(value, escapeText);
  if (value instanceof Uint8Array)
    return `b${quoted(Buffer.from(value).toString('latin1'), escapeByte)}`;
  if (value instanceof WireDateTime) return `datetime.datetime(${value.text})`;
  if (value instanceof WireExtension)
    return `ExtType(code=${value.code}, data=${pythonRepr(value.data)})`;
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(', ')}]`;
  return mapRepr(value);
}

function mapRepr(map: WireMap | Map<WireValue, WireValue>): string {
  const entries = map instanceof Map ? [...map] : Object.entries(map);
  return `{${entries.map(([key, item]) => `${pythonRepr(key)}: ${pythonRepr(item)}`).join(', ')}}`;
}

/** Python writes an exponent below 1e-4 and from 1e16 on, with a sign and two digits. */
function numberRepr(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const magnitude = Math.abs(value);
  if (Number.isSafeInteger(value) || (magnitude >= 1e-4 && magnitude < 1e16)) return String(value);
  const [mantissa, exponent = ''] = value.toExponential().split('e');
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

function quoted(text: string, encode: (character: string) => string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const write = (character: string): string =>
    character === quote || character === '\\' ? `\\${character}` : encode(character);
  return `${quote}${Array.from(text, write).join('')}${quote}`;
}

const shortEscapes: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

function escapeText(character: string): string {
  return character < ' ' || character === '\x7f' ? escapeByte(character) : character;
}

function escapeByte(character: string): string {
  const isPrintable = character >= ' ' && character < '\x7f';
  const hex = character.charCodeAt(0).toString(16).padStart(2, '0');
  return isPrintable ? character : (shortEscapes.get(character) ?? `\\x${hex}`);
}

/** Values as Python prints them: numbers, bytes, `repr()`, `str()` and `pprint`. */

import { WireDateTime, WireExtension, type WireValue } from '../../minion-protocol/index.ts';

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

/** A map's entries in its own order, or `undefined` when the value is no map. */
export function mapEntries(value: WireValue): [WireValue, WireValue][] | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (value instanceof Uint8Array || value instanceof WireDateTime) return undefined;
  if (value instanceof WireExtension) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/** `sorted()` of a map's entries; keys that cannot be compared are sorted as text. */
export function sortMapEntries(entries: readonly [WireValue, WireValue][]): [string, WireValue][] {
  const named = entries.map(([key, item]) => ({ key, name: pythonKeyText(key), item }));
  const areNumbers = named.every(({ key }) => isNumeric(key));
  named.sort((left, right) => {
    if (areNumbers) return Number(left.key) - Number(right.key);
    return compareCodePoints(left.name, right.name);
  });
  return named.map(({ name, item }) => [name, item]);
}

/**
 * A map's entries by their keys as Python compares them: numbers by size, text by code points.
 * @param onMixed keys of several kinds cannot be compared: `keep` leaves them in their order
 * [PyYAML representer.py], `by-type` sorts the kinds by their names [pprint.py]
 */
export function mapEntriesByKey(
  map: WireValue,
  onMixed: 'keep' | 'by-type',
): [WireValue, WireValue][] {
  const entries = mapEntries(map) ?? [];
  const kinds = new Set(entries.map(([key]) => pythonKind(key)));
  if (onMixed === 'keep' && kinds.size > 1) return entries;
  return entries.toSorted(([left], [right]) => {
    const byKind = compareCodePoints(pythonKind(left), pythonKind(right));
    if (byKind !== 0) return byKind;
    if (isNumeric(left)) return Number(left) - Number(right);
    return compareCodePoints(pythonKeyText(left), pythonKeyText(right));
  });
}

function pythonKind(key: WireValue): string {
  if (key === null) return 'NoneType';
  if (isNumeric(key)) return 'int';
  if (key instanceof Uint8Array) return 'bytes';
  return typeof key === 'string' ? 'str' : 'tuple';
}

function isNumeric(key: WireValue): boolean {
  return typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean';
}

/** `str()` of a key. */
export function pythonKeyText(key: WireValue): string {
  if (typeof key === 'string') return key;
  if (key === null) return 'None';
  if (typeof key === 'boolean') return key ? 'True' : 'False';
  if (typeof key === 'number' || typeof key === 'bigint') return pythonNumber(key);
  if (key instanceof Uint8Array) return pythonBytes(key);
  if (key instanceof WireDateTime) return key.text;
  return 'key of a kind that Python does not have';
}

// `repr()` and `str()`.

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

/** Words, each with a hyphen that it may be broken behind, and the blanks between them. */
const chunkForm = / +|[^ ]*?[^\d\W ]{2}-(?=[^\d\W]{2})|[^ ]+/gu;

/**
 * Python's `textwrap.fill`: lines are broken at blanks and behind hyphens; what is longer than a
 * line is cut.
 * @param indent blanks before each line, counted in its width
 */
export function wrapText(text: string, width: number, indent: number): string {
  const room = width - indent;
  const chunks = text.replace(/[\t\n\v\f\r]/g, ' ').match(chunkForm) ?? [];
  const lines: string[] = [];
  let line = '';
  for (const chunk of chunks) {
    if (line.length + chunk.length <= room) {
      line += line === '' && lines.length > 0 ? chunk.trimStart() : chunk;
      continue;
    }
    let rest = chunk.trim();
    if (rest.length > room) {
      // As much as fits goes on the line that is being filled.
      const fitting = Math.max(1, room - line.length);
      line += rest.slice(0, fitting);
      rest = rest.slice(fitting);
    }
    lines.push(line.trimEnd());
    while (rest.length > room) {
      lines.push(rest.slice(0, room));
      rest = rest.slice(room);
    }
    line = rest;
  }
  if (line.trim() !== '') lines.push(line.trimEnd());
  return lines.map((each) => ' '.repeat(indent) + each).join('\n');
}

// `pprint.pformat` [salt output/pprint_out.py].

/** Columns. */
const pprintWidth = 80;

/** What has to fit behind a value on its last line: brackets and a comma. */
interface PprintPlace {
  /** Column in which the value begins. */
  readonly indent: number;
  readonly allowance: number;
}

/** The value in lines of at most 80 columns where it can be broken; maps by their keys. */
export function formatPprint(value: WireValue, indentPerLevel = 1): string {
  return new PrettyWriter(indentPerLevel).write(value, { indent: 0, allowance: 0 }, 1);
}

class PrettyWriter {
  readonly #perLevel: number;

  constructor(perLevel: number) {
    this.#perLevel = perLevel;
  }

  write(value: WireValue, place: PprintPlace, level: number): string {
    const plain = sortedRepr(value);
    if (plain.length <= pprintWidth - place.indent - place.allowance) return plain;
    if (typeof value === 'string') return writeText(value, place, level);
    if (Array.isArray(value)) return this.#writeList(value, place, level);
    const entries = mapEntries(value);
    return entries === undefined || entries.length === 0
      ? plain
      : this.#writeMap(value, place, level);
  }

  #writeList(
    items: readonly WireValue[],
    { indent, allowance }: PprintPlace,
    level: number,
  ): string {
    const inner = indent + this.#perLevel;
    const lines = items.map((item, index) => {
      const isLast = index === items.length - 1;
      return this.write(item, { indent: inner, allowance: isLast ? allowance + 1 : 1 }, level + 1);
    });
    return `[${this.#filler()}${lines.join(`,\n${' '.repeat(inner)}`)}]`;
  }

  #writeMap(map: WireValue, { indent, allowance }: PprintPlace, level: number): string {
    const inner = indent + this.#perLevel;
    const entries = mapEntriesByKey(map, 'by-type');
    const lines = entries.map(([key, item], index) => {
      const isLast = index === entries.length - 1;
      const name = pythonRepr(key);
      const place = {
        indent: inner + name.length + 2,
        allowance: isLast ? allowance + 1 : 1,
      };
      return `${name}: ${this.write(item, place, level + 1)}`;
    });
    return `{${this.#filler()}${lines.join(`,\n${' '.repeat(inner)}`)}}`;
  }

  /** Blanks behind an opening bracket. */
  #filler(): string {
    return ' '.repeat(Math.max(0, this.#perLevel - 1));
  }
}

/** `repr()` with every map sorted. */
function sortedRepr(value: WireValue): string {
  if (Array.isArray(value)) return `[${value.map(sortedRepr).join(', ')}]`;
  if (mapEntries(value) === undefined) return pythonRepr(value);
  const entries = mapEntriesByKey(value, 'by-type');
  return `{${entries.map(([key, item]) => `${pythonRepr(key)}: ${sortedRepr(item)}`).join(', ')}}`;
}

/** Text that is too long is broken at line ends and behind blanks, in pieces side by side. */
function writeText(text: string, { indent, allowance }: PprintPlace, level: number): string {
  const isOutermost = level === 1;
  const start = isOutermost ? indent + 1 : indent;
  const room = isOutermost ? allowance + 1 : allowance;
  const chunks: string[] = [];
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  for (const [index, line] of lines.entries()) {
    const isLast = index === lines.length - 1;
    const whole = pythonRepr(line);
    if (whole.length <= pprintWidth - start - (isLast ? room : 0)) chunks.push(whole);
    else chunks.push(...breakLine(line, pprintWidth - start, isLast ? room : 0));
  }
  if (chunks.length === 1) return pythonRepr(text);
  const joined = chunks.join(`\n${' '.repeat(start)}`);
  return isOutermost ? `(${joined})` : joined;
}

function breakLine(line: string, available: number, room: number): string[] {
  const chunks: string[] = [];
  const words = line.match(/\S*\s*/g)?.filter((word) => word !== '') ?? [];
  let current = '';
  for (const [index, word] of words.entries()) {
    const candidate = current + word;
    const most = index === words.length - 1 ? available - room : available;
    if (pythonRepr(candidate).length > most) {
      if (current !== '') chunks.push(pythonRepr(current));
      current = word;
    } else {
      current = candidate;
    }
  }
  if (current !== '') chunks.push(pythonRepr(current));
  return chunks;
}

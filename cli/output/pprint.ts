/** Python's `pprint.pformat`, Salt's outputter of that name [salt output/pprint_out.py]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { entriesByKey, mapEntries } from './map-entries.ts';
import { pythonRepr } from './python-repr.ts';

/** Columns. */
const width = 80;

/** What has to fit behind a value on its last line: brackets and a comma. */
interface Place {
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

  write(value: WireValue, place: Place, level: number): string {
    const plain = sortedRepr(value);
    if (plain.length <= width - place.indent - place.allowance) return plain;
    if (typeof value === 'string') return writeText(value, place, level);
    if (Array.isArray(value)) return this.#writeList(value, place, level);
    const entries = mapEntries(value);
    return entries === undefined || entries.length === 0
      ? plain
      : this.#writeMap(value, place, level);
  }

  #writeList(items: readonly WireValue[], { indent, allowance }: Place, level: number): string {
    const inner = indent + this.#perLevel;
    const lines = items.map((item, index) => {
      const isLast = index === items.length - 1;
      return this.write(item, { indent: inner, allowance: isLast ? allowance + 1 : 1 }, level + 1);
    });
    return `[${this.#filler()}${lines.join(`,\n${' '.repeat(inner)}`)}]`;
  }

  #writeMap(map: WireValue, { indent, allowance }: Place, level: number): string {
    const inner = indent + this.#perLevel;
    const entries = entriesByKey(map, 'by-type');
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
  const entries = entriesByKey(value, 'by-type');
  return `{${entries.map(([key, item]) => `${pythonRepr(key)}: ${sortedRepr(item)}`).join(', ')}}`;
}

/** Text that is too long is broken at line ends and behind blanks, in pieces side by side. */
function writeText(text: string, { indent, allowance }: Place, level: number): string {
  const isOutermost = level === 1;
  const start = isOutermost ? indent + 1 : indent;
  const room = isOutermost ? allowance + 1 : allowance;
  const chunks: string[] = [];
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  for (const [index, line] of lines.entries()) {
    const isLast = index === lines.length - 1;
    const whole = pythonRepr(line);
    if (whole.length <= width - start - (isLast ? room : 0)) chunks.push(whole);
    else chunks.push(...breakLine(line, width - start, isLast ? room : 0));
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

/** Implements `pprint.pformat`. */

import { isOrdered } from './comparison.ts';
import { LimitExceeded, PythonException } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import { repr, textRepr, typeName } from './repr.ts';
import { splitLines } from './text.ts';
import { Dict, PySet, Tuple, Undefined, type Value } from './values.ts';

const width = 80;
const maxNesting = 200;

/**
 * Formats a value like Python's `pprint`. Breaks lists, dicts and other values so that each line
 * has at most 80 columns, if possible.
 * @param perLevel - number of columns by which each nesting level is indented (the option `indent`)
 * @throws LimitExceeded
 */
export function pformat(value: Value, meter: UsageMeter, perLevel = 1): string {
  return new PrettyPrinter(meter, perLevel).format(value, { indent: 0, allowance: 0, level: 1 });
}

/** Column and nesting level at which a value is formatted. */
interface Place {
  /** Column at which the value starts, from 0. */
  readonly indent: number;
  /** Number of columns that must stay free after the last line, for brackets and a comma. */
  readonly allowance: number;
  /** Nesting level, from 1. */
  readonly level: number;
}

class PrettyPrinter {
  readonly #meter: UsageMeter;
  readonly #perLevel: number;

  constructor(meter: UsageMeter, perLevel: number) {
    this.#meter = meter;
    this.#perLevel = perLevel;
  }

  format(value: Value, place: Place): string {
    if (place.level > maxNesting) throw new LimitExceeded('levels of data', maxNesting);
    const ordered = orderKeys(value, this.#meter, 0);
    const flat = repr(ordered, this.#meter.walk());
    this.#meter.text(flat.length);
    if (flat.length <= width - place.indent - place.allowance) return flat;
    if (typeof ordered === 'string') return breakText(ordered, place);
    if (ordered instanceof Dict && ordered.size > 0) return this.#dict(ordered, place);
    if (Array.isArray(ordered)) return this.#items('[', ordered, ']', place);
    if (ordered instanceof Tuple) {
      return this.#items('(', ordered.items, ordered.items.length === 1 ? ',)' : ')', place);
    }
    if (ordered instanceof PySet && ordered.size > 0) {
      return this.#items('{', ordered.values(), '}', place);
    }
    return flat;
  }

  #items(
    open: string,
    items: readonly Value[],
    close: string,
    { indent, allowance, level }: Place,
  ): string {
    const inner = indent + this.#perLevel;
    const parts = items.map((item, index) => {
      const isLast = index === items.length - 1;
      const rest = isLast ? allowance + close.length : 1;
      return this.format(item, { indent: inner, allowance: rest, level: level + 1 });
    });
    return `${open}${this.#filler()}${parts.join(`,\n${' '.repeat(inner)}`)}${close}`;
  }

  #dict(dict: Dict, { indent, allowance, level }: Place): string {
    const inner = indent + this.#perLevel;
    const parts = Array.from(dict.entries(), ([key, value], index) => {
      const name = repr(key);
      const rest = index === dict.size - 1 ? allowance + 1 : 1;
      const column = inner + name.length + 2;
      return `${name}: ${this.format(value, { indent: column, allowance: rest, level: level + 1 })}`;
    });
    return `{${this.#filler()}${parts.join(`,\n${' '.repeat(inner)}`)}}`;
  }

  /** Returns the spaces that follow an opening bracket. */
  #filler(): string {
    return ' '.repeat(Math.max(0, this.#perLevel - 1));
  }
}

/**
 * Breaks a long text into several adjacent literals. It is broken at line ends and after spaces.
 */
function breakText(text: string, { indent, allowance, level }: Place): string {
  const isOutermost = level === 1;
  const start = isOutermost ? indent + 1 : indent;
  const room = isOutermost ? allowance + 1 : allowance;
  const lines = splitLines(text, true);
  const chunks = lines.flatMap((line, index) => {
    const most = width - start;
    const rest = index === lines.length - 1 ? room : 0;
    const whole = textRepr(line);
    return whole.length <= most - rest ? [whole] : breakLine(line, most, rest);
  });
  if (chunks.length === 1) return textRepr(text);
  const joined = chunks.join(`\n${' '.repeat(start)}`);
  return isOutermost ? `(${joined})` : joined;
}

function breakLine(line: string, available: number, room: number): string[] {
  const chunks: string[] = [];
  const words = line.match(/\S+\s*|\s+/g) ?? [];
  let current = '';
  for (const [index, word] of words.entries()) {
    const candidate = current + word;
    const most = index === words.length - 1 ? available - room : available;
    if (textRepr(candidate).length > most) {
      if (current !== '') chunks.push(textRepr(current));
      current = word;
    } else {
      current = candidate;
    }
  }
  if (current !== '') chunks.push(textRepr(current));
  return chunks;
}

/** Sorts the keys of dicts, if they can be ordered. */
function orderKeys(value: Value, meter: UsageMeter, level: number): Value {
  if (level > maxNesting) throw new LimitExceeded('levels of data', maxNesting);
  meter.step();
  const inner = (item: Value): Value => orderKeys(item, meter, level + 1);
  if (Array.isArray(value)) return value.map(inner);
  if (value instanceof Tuple) return new Tuple(value.items.map(inner));
  if (value instanceof Undefined) return value;
  if (!(value instanceof Dict)) return value;
  return new Dict(
    keysInOrder(value, meter).map((key) => [key, inner(value.get(key) ?? null)] as const),
  );
}

/** Sorts keys. Keys of types without a common order are sorted by the names of their types. */
function keysInOrder(dict: Dict, meter: UsageMeter): Value[] {
  meter.step(dict.size);
  return dict.keys().sort((left, right) => {
    if (isBefore(left, right)) return -1;
    return isBefore(right, left) ? 1 : 0;
  });
}

function isBefore(left: Value, right: Value): boolean {
  try {
    return isOrdered(left, '<', right);
  } catch (error) {
    if (!(error instanceof PythonException)) throw error;
    return typeName(left) < typeName(right);
  }
}

/** Values as text: as Python, JSON and YAML write them, and by Salt's default outputter. */

import {
  type PythonForms,
  toPythonValue,
  unboundedStr,
  WireDateTime,
  WireExtension,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { dumpJson } from '../../python/json.ts';
import { dumpLibyaml } from '../../python/libyaml.ts';
import { RecursionGuard, UsageMeter } from '../../python/limits.ts';
import { textOrder } from '../../python/operators.ts';
import { pformat } from '../../python/pprint.ts';
import { splitLines, wrapLine } from '../../python/text.ts';
import { Bytes, bytesRepr, repr, str, Tuple, type Value } from '../../python/values.ts';
import { type Colors, escapeJson, escapeLine, escapeName, noColors } from '../terminal.ts';

// Values of the wire as Python prints them, which is how Salt's outputters do.

/** Salt's client gets dates as text, and extensions as a pair. */
const printed: PythonForms = {
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, new Bytes(data)],
};

/** JSON has neither bytes nor keys that are tuples: Python's literals stand for both. */
const jsonForms: PythonForms = {
  bytes: bytesRepr,
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, bytesRepr(data)],
  key: (key) => (key instanceof Tuple ? str(key) : key),
};

/** YAML has dates, written without quotes. */
const yamlForms: PythonForms = {
  ...printed,
  dateTime: ({ text }) => ({ typeName: 'datetime', repr: () => text }),
};

/** `repr()`. */
export function pythonRepr(value: WireValue): string {
  return repr(toPythonValue(value, printed), new RecursionGuard(Number.POSITIVE_INFINITY));
}

/** `str()`: text as it is, everything else as `repr()` has it. */
export function pythonStr(value: WireValue): string {
  return typeof value === 'string' ? value : unboundedStr(toPythonValue(value, printed));
}

/** A map's entries in its own order, or `undefined` when the value is no map. */
export function mapEntries(value: WireValue): [WireValue, WireValue][] | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (value instanceof Uint8Array || value instanceof WireDateTime) return undefined;
  if (value instanceof WireExtension) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/** `sorted()` of a map's entries; keys that cannot be compared are sorted as text. */
function sortMapEntries(entries: readonly [WireValue, WireValue][]): [string, WireValue][] {
  const named = entries.map(([key, item]) => ({ key, name: pythonStr(key), item }));
  const areNumbers = named.every(({ key }) => isNumeric(key));
  named.sort((left, right) => {
    if (areNumbers) return Number(left.key) - Number(right.key);
    return textOrder(left.name, right.name);
  });
  return named.map(({ name, item }) => [name, item]);
}

function isNumeric(key: WireValue): boolean {
  return typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean';
}

/** How JSON is laid out. */
export interface JsonOptions {
  /** Spaces for each level; without it, everything is on one line. */
  readonly indent?: number;
}

/**
 * The value as JSON, keys in their own order [salt output/json_out.py]. Bytes are written as Python's
 * literal, and numbers that JSON has no form for as `NaN` and `Infinity`, both as Salt does.
 */
export function formatJson(value: WireValue, { indent }: JsonOptions = {}): string {
  const meter = UsageMeter.unlimited();
  const converted = toPythonValue(value, jsonForms);
  return escapeJson(dumpJson(converted, { sortKeys: false, indent, ensureAscii: false, meter }));
}

/** How YAML is laid out. */
export interface YamlOptions {
  /** Spaces for each level, 2 to 9; negative: everything in flow style. Default 2. */
  readonly indent?: number | undefined;
}

/** The value as YAML, keys sorted, without a newline at its end [salt output/yaml_out.py]. */
export function formatYaml(value: WireValue, { indent = 2 }: YamlOptions = {}): string {
  const meter = UsageMeter.unlimited();
  return dumpLibyaml(toPythonValue(value, yamlForms), { indent, meter });
}

/** The value in lines of at most 80 columns where it can be broken [salt output/pprint_out.py]. */
export function formatPprint(value: WireValue, indentPerLevel = 1): string {
  const converted: Value = toPythonValue(value, printed);
  return pformat(converted, UsageMeter.unlimited(), indentPerLevel);
}

/**
 * Python's `textwrap.fill`: lines are broken at blanks and behind hyphens; what is longer than a
 * line is cut.
 * @param indent blanks before each line, counted in its width
 */
export function wrapText(text: string, width: number, indent: number): string {
  const line = text.replace(/[\t\n\v\f\r]/g, ' ');
  const options = { width: width - indent, breakLongWords: true, breakOnHyphens: true };
  return wrapLine(line, options)
    .map((part) => ' '.repeat(indent) + part)
    .join('\n');
}

// Salt's default outputter: YAML-like, keys sorted, coloured [salt output/nested.py].

/** How a value is shown. */
export interface NestedOptions {
  /** Default: none. */
  readonly colors?: Colors;
  /** Whether the minion said that it failed: structure is then red. */
  readonly isFailure?: boolean;
  /** Spaces before everything. Default 0. */
  readonly indent?: number;
}

/** The value as Salt prints it, without a newline at its end. Empty text shows as nothing. */
export function formatNested(value: WireValue, options: NestedOptions = {}): string {
  const lines: string[] = [];
  const { colors = noColors, isFailure = false, indent = 0 } = options;
  new NestedWriter(lines, colors, isFailure).write(value, indent, '');
  return lines.join('\n');
}

class NestedWriter {
  readonly #lines: string[];
  readonly #colors: Colors;
  readonly #listColor: string;
  readonly #mapColor: string;

  constructor(lines: string[], colors: Colors, isFailure: boolean) {
    this.#lines = lines;
    this.#colors = colors;
    this.#listColor = isFailure ? colors.red : colors.green;
    this.#mapColor = isFailure ? colors.red : colors.cyan;
  }

  write(value: WireValue, indent: number, prefix: string): void {
    const { lightYellow } = this.#colors;
    if (value === null) this.#line(indent, lightYellow, `${prefix}None`);
    else if (value === true) this.#line(indent, lightYellow, `${prefix}True`);
    else if (value === false) this.#line(indent, lightYellow, `${prefix}False`);
    else if (typeof value === 'number' || typeof value === 'bigint') {
      this.#line(indent, lightYellow, `${prefix}${pythonRepr(value)}`);
    } else if (typeof value === 'string') this.#writeText(value, indent, prefix);
    else if (value instanceof Uint8Array) this.#writeBytes(value, indent, prefix);
    else if (value instanceof WireDateTime) this.#writeText(value.text, indent, prefix);
    else if (value instanceof WireExtension) this.#writeList([value.code, value.data], indent);
    else if (Array.isArray(value)) this.#writeList(value, indent);
    else this.#writeMap(value, indent);
  }

  #line(indent: number, color: string, text: string, suffix = ''): void {
    this.#lines.push(`${' '.repeat(indent)}${color}${text}${this.#colors.end}${suffix}`);
  }

  #writeText(text: string, indent: number, prefix: string): void {
    for (const [index, line] of splitLines(text).entries()) {
      const start = index === 0 ? prefix : ' '.repeat(prefix.length);
      this.#line(indent, this.#colors.green, start + escapeLine(line));
    }
  }

  /** Bytes that are text are shown as such, others not at all. */
  #writeBytes(bytes: Uint8Array, indent: number, prefix: string): void {
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return;
    }
    this.#writeText(text, indent, prefix);
  }

  #writeList(items: readonly WireValue[], indent: number): void {
    for (const item of items) {
      if (isContainer(item)) {
        this.#line(indent, this.#listColor, '|_');
        this.write(item, indent + 2, '');
      } else {
        this.write(item, indent, '- ');
      }
    }
  }

  #writeMap(map: WireValue, indent: number): void {
    if (indent > 0) this.#line(indent, this.#mapColor, '----------');
    for (const [name, item] of sortMapEntries(mapEntries(map) ?? [])) {
      this.#line(indent, this.#mapColor, escapeName(name), ':');
      this.write(item, indent + 4, '');
    }
  }
}

function isContainer(value: WireValue): boolean {
  return Array.isArray(value) || value instanceof WireExtension || mapEntries(value) !== undefined;
}

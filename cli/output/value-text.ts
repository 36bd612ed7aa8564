/** Values of the wire as text: as Python prints them, which Salt's outputters do, and as JSON and YAML. */

import {
  toPythonValue,
  unboundedStr,
  WireDateTime,
  WireExtension,
  type WireValue,
} from '#minion-protocol';
import { textOrder } from '#template/python/comparison.ts';
import { dumpJson } from '#template/python/json.ts';
import { RecursionGuard, UsageMeter } from '#template/python/limits.ts';
import { pformat } from '#template/python/pprint.ts';
import { bytesRepr, repr, str } from '#template/python/repr.ts';
import { wrapLine } from '#template/python/text-wrap.ts';
import { Bytes, Float, Tuple, type Value } from '#template/python/values.ts';
import { dumpYaml } from '#template/python/yaml.ts';
import { escapeJson } from '../terminal.ts';

/** Forms of the values of the wire that have no literal in Python. */
type PythonForms = Parameters<typeof toPythonValue>[1];

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
  if (value instanceof WireExtension || value instanceof Float) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/** `sorted()` of a map's entries; keys that cannot be compared are sorted as text. */
export function sortMapEntries(entries: readonly [WireValue, WireValue][]): [string, WireValue][] {
  const named = entries.map(([key, item]) => ({ key, name: pythonStr(key), item }));
  const areNumbers = named.every(({ key }) => isNumeric(key));
  named.sort((left, right) => {
    if (areNumbers) return numberOf(left.key) - numberOf(right.key);
    return textOrder(left.name, right.name);
  });
  return named.map(({ name, item }) => [name, item]);
}

function numberOf(key: WireValue): number {
  return key instanceof Float ? key.value : Number(key);
}

function isNumeric(key: WireValue): boolean {
  if (key instanceof Float) return true;
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
  return dumpYaml(toPythonValue(value, yamlForms), {
    flowStyle: indent < 0,
    indent: indent >= 2 && indent <= 9 ? indent : 2,
    isLibyaml: true,
    meter: UsageMeter.unlimited(),
  });
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

/**
 * Converts wire values to text: as JSON, as YAML, or in Python's notation, which Salt's outputters
 * use.
 */

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
import { escapeJson } from '../terminal.ts';

/**
 * Functions that convert the kinds of wire values for which Python has no literal, such as dates.
 */
type PythonForms = Parameters<typeof toPythonValue>[1];

/**
 * Conversions for printing in Python's notation. Salt's client receives dates as text and
 * extensions as pairs.
 */
const printed: PythonForms = {
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, new Bytes(data)],
};

/**
 * Conversions for JSON. Bytes, and tuples as keys, are written as Python literals, because JSON has
 * neither.
 */
const jsonForms: PythonForms = {
  bytes: bytesRepr,
  dateTime: ({ text }) => text,
  extension: ({ code, data }) => [code, bytesRepr(data)],
  key: (key) => (key instanceof Tuple ? str(key) : key),
};

/** Returns Python's `repr()` of a value. */
export function pythonRepr(value: WireValue): string {
  return repr(toPythonValue(value, printed), new RecursionGuard(Number.POSITIVE_INFINITY));
}

/** Returns Python's `str()` of a value: a text unchanged, any other value as `repr()`. */
export function pythonStr(value: WireValue): string {
  return typeof value === 'string' ? value : unboundedStr(toPythonValue(value, printed));
}

/**
 * Returns the entries of a map in their original order. Returns `undefined` if the value is not a
 * map.
 */
export function mapEntries(value: WireValue): [WireValue, WireValue][] | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (value instanceof Uint8Array || value instanceof WireDateTime) return undefined;
  if (value instanceof WireExtension || value instanceof Float) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/**
 * Returns the entries of a map in the order of Python's `sorted()`. Keys that Python cannot compare
 * with each other are sorted as text.
 */
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

/** Options for the layout of JSON. */
export interface JsonOptions {
  /** Number of spaces per level. Default: everything is on one line. */
  readonly indent?: number;
}

/**
 * Formats a value as JSON, with keys in their original order [salt output/json_out.py]. As in Salt,
 * bytes are written as Python literals, and special numbers as `NaN` and `Infinity`.
 */
export function formatJson(value: WireValue, { indent }: JsonOptions = {}): string {
  const meter = UsageMeter.unlimited();
  const converted = toPythonValue(value, jsonForms);
  return escapeJson(dumpJson(converted, { sortKeys: false, indent, ensureAscii: false, meter }));
}

/**
 * Formats a value like Python's `pprint`. A list or map that needs more than 80 columns is broken
 * between its items [salt output/pprint_out.py].
 */
export function formatPprint(value: WireValue, indentPerLevel = 1): string {
  const converted: Value = toPythonValue(value, printed);
  return pformat(converted, UsageMeter.unlimited(), indentPerLevel);
}

/**
 * Wraps text as Python's `textwrap.fill` does: breaks lines at spaces and after hyphens, and splits
 * words that are longer than a line.
 * @param indent - number of spaces before each line, included in its width
 */
export function wrapText(text: string, width: number, indent: number): string {
  const line = text.replace(/[\t\n\v\f\r]/g, ' ');
  const options = { width: width - indent, breakLongWords: true, breakOnHyphens: true };
  return wrapLine(line, options, UsageMeter.unlimited())
    .map((part) => ' '.repeat(indent) + part)
    .join('\n');
}

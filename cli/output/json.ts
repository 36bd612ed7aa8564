/** JSON as Python's `json.dumps` writes it, which is Salt's outputter [salt output/json_out.py]. */
import { WireDateTime, WireExtension, type WireValue } from '../../minion-protocol/index.ts';
import { escapeJson } from '../terminal.ts';
import { mapEntries, pythonBytes, pythonKeyText, pythonNumber } from './python.ts';

/** How JSON is laid out. */
export interface JsonOptions {
  /** Spaces for each level; without it, everything is on one line. */
  readonly indent?: number;
}

/**
 * The value as JSON, keys in their own order. Bytes are written as Python's literal, and numbers
 * that JSON has no form for as `NaN` and `Infinity`, both as Salt does.
 */
export function formatJson(value: WireValue, options: JsonOptions = {}): string {
  return escapeJson(writeValue(value, options.indent, '\n'));
}

function writeValue(value: WireValue, indent: number | undefined, newline: string): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number' || typeof value === 'bigint') return writeNumber(value);
  if (value instanceof Uint8Array) return JSON.stringify(pythonBytes(value));
  if (value instanceof WireDateTime) return JSON.stringify(value.text);
  if (value instanceof WireExtension) return writeValue([value.code, value.data], indent, newline);
  const inner = `${newline}${' '.repeat(indent ?? 0)}`;
  if (Array.isArray(value)) {
    const items = value.map((item) => writeValue(item, indent, inner));
    return enclose('[', items, ']', indent === undefined ? undefined : [inner, newline]);
  }
  const entries = (mapEntries(value) ?? []).map(
    ([key, item]) => `${JSON.stringify(jsonKey(key))}: ${writeValue(item, indent, inner)}`,
  );
  return enclose('{', entries, '}', indent === undefined ? undefined : [inner, newline]);
}

function enclose(
  open: string,
  parts: readonly string[],
  close: string,
  breaks: readonly [string, string] | undefined,
): string {
  if (parts.length === 0) return open + close;
  if (breaks === undefined) return `${open}${parts.join(', ')}${close}`;
  const [inner, outer] = breaks;
  return `${open}${inner}${parts.join(`,${inner}`)}${outer}${close}`;
}

function writeNumber(value: number | bigint): string {
  if (typeof value === 'bigint' || Number.isFinite(value)) return pythonNumber(value);
  if (Number.isNaN(value)) return 'NaN';
  return value > 0 ? 'Infinity' : '-Infinity';
}

function jsonKey(key: WireValue): string {
  if (key === null || typeof key === 'boolean') return String(key);
  return typeof key === 'number' || typeof key === 'bigint' ? writeNumber(key) : pythonKeyText(key);
}

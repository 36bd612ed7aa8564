/**
 * Encodes Salt's values as JSON in the style of Python's `json.dumps`. Bytes are encoded as text.
 */
import {
  isWireMap,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { type JsonForm, rawNumber } from '#runtime';

/** Returns the value as JSON on one line. */
export function jsonText(value: WireValue | undefined): string {
  // JSON escapes newlines in strings, so each newline in the result separates items.
  const text = JSON.stringify(value ?? null, replaceValue, 1);
  return text.replaceAll(/,\n */g, ', ').replaceAll(/\n */g, '');
}

/**
 * Replaces values that JSON cannot represent; called by `JSON.stringify`. For a `Buffer`, `item` is
 * already the result of `toJSON`. The function therefore reads the original value from `this`.
 */
function replaceValue(
  this: Readonly<Record<string, unknown>>,
  key: string,
  item: unknown,
): unknown {
  if (typeof item === 'bigint') return rawNumber(item);
  // Python writes large floats with an exponent. Without the exponent, a reader would take the
  // number for an integer.
  if (typeof item === 'number' && Number.isInteger(item) && !Number.isSafeInteger(item)) {
    return rawNumber(item.toExponential());
  }
  if (typeof item !== 'object' || item === null) return item;
  const value = this[key];
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  if (value instanceof WireDateTime) return value.text;
  if (value instanceof WireExtension) return null;
  return value instanceof Map ? Object.fromEntries(membersOf(value)) : item;
}

/**
 * Rules for encoding Salt's values with the writer that encodes JSON in steps. The output is the
 * same as that of {@link jsonText}.
 */
export const saltJson: JsonForm = {
  write: (value) => jsonText(value as WireValue), // the form receives only such values
  open: (value) => {
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
    const isMap = value instanceof Map || isWireMap(value as WireValue);
    return isMap ? { members: membersOf(value as WireMap) } : undefined;
  },
  comma: ', ',
  colon: ': ',
};

function membersOf(map: WireMap | ReadonlyMap<WireValue, WireValue>): [string, WireValue][] {
  const entries: [WireValue, WireValue][] = map instanceof Map ? [...map] : Object.entries(map);
  return entries
    .filter(([, item]) => item !== undefined)
    .map(([key, item]) => [typeof key === 'string' ? key : jsonText(key), item]);
}

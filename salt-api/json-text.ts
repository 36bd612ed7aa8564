/** Salt's values as JSON, as salt-api writes them: a number is a number, bytes are their text. */
import {
  isWireMap,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import type { JsonForm } from '#runtime';

/** The value on one line. */
export function jsonText(value: WireValue | undefined): string {
  if (value === undefined || value === null) return 'null';
  if (typeof value === 'bigint') return String(value);
  // JSON has neither infinities nor "not a number".
  if (typeof value === 'number') return numberText(value);
  if (typeof value !== 'object') return JSON.stringify(value);
  if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString('utf8'));
  if (value instanceof WireDateTime) return JSON.stringify(value.text);
  if (value instanceof WireExtension) return 'null';
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  const members = membersOf(value).map(
    ([key, item]) => `${JSON.stringify(key)}: ${jsonText(item)}`,
  );
  return `{${members.join(', ')}}`;
}

/** The same for values that are written in steps. */
export const saltJson: JsonForm = {
  write: (value) => jsonText(value as WireValue), // what the form is given
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
    .map(([key, item]) => [keyText(key), item]);
}

/** Python writes large floats so too: digits alone are an integer. */
function numberText(value: number): string {
  if (!Number.isFinite(value)) return 'null';
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  return isLarge ? value.toExponential() : String(value);
}

function keyText(key: WireValue): string {
  return typeof key === 'string' ? key : jsonText(key);
}

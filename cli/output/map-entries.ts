import type { WireValue } from '../../minion-protocol/index.ts';
import { WireDateTime, WireExtension } from '../../minion-protocol/index.ts';
import { compareCodePoints, pythonBytes, pythonNumber } from './python.ts';

/** A map's entries in its own order, or `undefined` when the value is no map. */
export function mapEntries(value: WireValue): [WireValue, WireValue][] | undefined {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  if (value instanceof Uint8Array || value instanceof WireDateTime) return undefined;
  if (value instanceof WireExtension) return undefined;
  return value instanceof Map ? [...value] : Object.entries(value);
}

/** `sorted()` of a map's entries; keys that cannot be compared are sorted as text. */
export function sortEntries(entries: readonly [WireValue, WireValue][]): [string, WireValue][] {
  const named = entries.map(([key, item]) => ({ key, name: keyText(key), item }));
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
export function entriesByKey(
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
    return compareCodePoints(keyText(left), keyText(right));
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
export function keyText(key: WireValue): string {
  if (typeof key === 'string') return key;
  if (key === null) return 'None';
  if (typeof key === 'boolean') return key ? 'True' : 'False';
  if (typeof key === 'number' || typeof key === 'bigint') return pythonNumber(key);
  if (key instanceof Uint8Array) return pythonBytes(key);
  if (key instanceof WireDateTime) return key.text;
  return 'key of a kind that Python does not have';
}

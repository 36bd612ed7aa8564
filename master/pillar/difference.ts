/** What changes from one pillar to another. */
import { isDeepStrictEqual } from 'node:util';
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';

/** A value that is another one. */
export interface PillarDifference {
  /** Keys with `:` between them. */
  readonly path: string;
  /** Absent: it was not there. */
  readonly before?: WireValue;
  /** Absent: it is not there any more. */
  readonly after?: WireValue;
}

/** All values that differ, maps level by level, in the order of their paths. */
export function differences(before: WireValue, after: WireValue, path = ''): PillarDifference[] {
  const [left, right] = [entriesOf(before), entriesOf(after)];
  if (left === undefined || right === undefined) {
    return isDeepStrictEqual(before, after) ? [] : [{ path, before, after }];
  }
  const names = [...new Set([...left.keys(), ...right.keys()])].sort();
  return names.flatMap((name) => {
    const inner = path === '' ? name : `${path}:${name}`;
    const [was, is] = [left.get(name), right.get(name)];
    if (was === undefined) return is === undefined ? [] : [{ path: inner, after: is }];
    return is === undefined ? [{ path: inner, before: was }] : differences(was, is, inner);
  });
}

function entriesOf(value: WireValue): ReadonlyMap<string, WireValue> | undefined {
  if (value instanceof Map) return new Map([...value].map(([key, inner]) => [String(key), inner]));
  return isWireMap(value) ? new Map(Object.entries(value)) : undefined;
}

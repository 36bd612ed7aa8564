/** Methods of `list`, `tuple` and `range`. */

import { equals, sortValues } from './comparison.ts';
import { PythonException, typeError, valueError } from './exceptions.ts';
import { defineMethod, type Method, type Methods } from './functions.ts';
import type { UsageMeter } from './limits.ts';
import { repr } from './repr.ts';
import { isTruthy, toArray } from './sequences.ts';
import { asIndex } from './subscripts.ts';
import { isInteger, isPyObject, type Range, type Tuple, type Value } from './values.ts';

function find(items: readonly Value[], wanted: Value, start: Value, stop: Value): number {
  const clip = (value: Value, fallback: number): number => {
    const at = value === null ? fallback : asIndex(value);
    return Math.max(0, at < 0 ? at + items.length : at);
  };
  const end = Math.min(items.length, clip(stop, items.length));
  for (let index = clip(start, 0); index < end; index += 1) {
    if (equals(items[index] ?? null, wanted)) return index;
  }
  return -1;
}

function sortInPlace(list: Value[], key: Value, reverse: Value, meter: UsageMeter): null {
  const call = isPyObject(key) ? key.call?.bind(key) : undefined;
  if (key !== null && call === undefined)
    throw typeError('the argument `key` of list.sort() must be a function');
  const items = sortValues(
    list,
    {
      reverse: isTruthy(reverse),
      ...(call === undefined
        ? {}
        : { key: (item) => call({ positional: [item], named: new Map() }) }),
    },
    meter,
  );
  list.splice(0, list.length, ...items);
  return null;
}

function popAt(list: Value[], at: Value): Value {
  const index = asIndex(at);
  if (list.length === 0) throw new PythonException('IndexError', 'pop from empty list');
  const [item] = list.splice(
    index < 0 ? Math.max(index, -list.length - 1) : index,
    inside(list, index) ? 1 : 0,
  );
  if (item === undefined) throw new PythonException('IndexError', 'pop index out of range');
  return item;
}

function inside(list: readonly Value[], index: number): boolean {
  return index >= -list.length && index < list.length;
}

const countMethod = <Self>(itemsOf: (self: Self) => readonly Value[]): Method<Self> =>
  defineMethod(['value'], [], (self, meter, wanted) => {
    const items = itemsOf(self);
    meter.step(items.length);
    return items.filter((item) => equals(item, wanted ?? null)).length;
  });

const indexMethod = <Self>(itemsOf: (self: Self) => readonly Value[], type: string): Method<Self> =>
  defineMethod(['value', 'start', 'stop'], [null, null], (self, meter, wanted, start, stop) => {
    const items = itemsOf(self);
    meter.step(items.length);
    const found = find(items, wanted ?? null, start ?? null, stop ?? null);
    if (found < 0) throw valueError(`${type}.index(x): x not in ${type}`);
    return found;
  });

/** Methods of `list`. */
export const listMethods: Methods<Value[]> = new Map<string, Method<Value[]>>([
  [
    'append',
    defineMethod(['object'], [], (list, meter, item) => {
      meter.step();
      list.push(item ?? null);
      return null;
    }),
  ],
  [
    'clear',
    defineMethod([], [], (list) => {
      list.length = 0;
      return null;
    }),
  ],
  [
    'copy',
    defineMethod([], [], (list, meter) => {
      meter.step(list.length);
      return [...list];
    }),
  ],
  ['count', countMethod((list) => list)],
  [
    'extend',
    defineMethod(['iterable'], [], (list, meter, items) => {
      for (const item of toArray(items ?? null, () => meter.step())) list.push(item);
      return null;
    }),
  ],
  ['index', indexMethod((list) => list, 'list')],
  [
    'insert',
    defineMethod(['index', 'object'], [], (list, meter, index, item) => {
      meter.step();
      const at = asIndex(index ?? null);
      list.splice(at < 0 ? Math.max(0, at + list.length) : at, 0, item ?? null);
      return null;
    }),
  ],
  ['pop', defineMethod(['index'], [-1], (list, _meter, index) => popAt(list, index ?? -1))],
  [
    'remove',
    defineMethod(['value'], [], (list, meter, value) => {
      meter.step(list.length);
      const found = find(list, value ?? null, null, null);
      if (found < 0) throw valueError('list.remove(x): x not in list');
      list.splice(found, 1);
      return null;
    }),
  ],
  [
    'reverse',
    defineMethod([], [], (list, meter) => {
      meter.step(list.length);
      list.reverse();
      return null;
    }),
  ],
  [
    'sort',
    defineMethod(['key', 'reverse'], [null, false], (list, meter, key, reverse) =>
      sortInPlace(list, key ?? null, reverse ?? false, meter),
    ),
  ],
]);

/** Methods of `tuple`. */
export const tupleMethods: Methods<Tuple> = new Map<string, Method<Tuple>>([
  ['count', countMethod(({ items }) => items)],
  ['index', indexMethod(({ items }) => items, 'tuple')],
]);

export const rangeMethods: Methods<Range> = new Map([
  [
    'count',
    defineMethod<Range>(['value'], [], (range, meter, wanted) => {
      return placeOf(range, wanted ?? null, meter) < 0 ? 0 : 1;
    }),
  ],
  [
    'index',
    defineMethod<Range>(['value'], [], (range, meter, wanted = null) => {
      const place = placeOf(range, wanted, meter);
      if (place >= 0) return place;
      throw valueError(
        isInteger(wanted)
          ? `${repr(wanted)} is not in range`
          : 'sequence.index(x): x not in sequence',
      );
    }),
  ],
]);

/** Returns the index of a value in a range, or -1. */
function placeOf(range: Range, wanted: Value, meter: UsageMeter): number {
  return toArray(range, () => meter.step()).findIndex((number) => equals(number, wanted));
}

/** The methods of `list` and `tuple`. */
import type { Meter } from '../limits.ts';
import { equals } from './compare.ts';
import { type Method, type Methods, method } from './functions.ts';
import { isTrue, toArray } from './iterate.ts';
import { Raised, typeError, valueError } from './raise.ts';
import { asIndex } from './slice.ts';
import { sorted } from './sort.ts';
import { isPyObject, type Tuple, type Value } from './values.ts';

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

function sortInPlace(list: Value[], key: Value, reverse: Value, meter: Meter): null {
  const call = isPyObject(key) ? key.call?.bind(key) : undefined;
  if (key !== null && call === undefined) throw typeError('the key is not callable');
  const items = sorted(
    list,
    {
      reverse: isTrue(reverse),
      ...(call === undefined
        ? {}
        : { key: (item) => call({ positional: [item], named: new Map() }) }),
    },
    meter,
  );
  list.splice(0, list.length, ...items);
  return null;
}

function pop(list: Value[], at: Value): Value {
  const index = asIndex(at);
  if (list.length === 0) throw new Raised('IndexError', 'pop from empty list');
  const [item] = list.splice(
    index < 0 ? Math.max(index, -list.length - 1) : index,
    inside(list, index) ? 1 : 0,
  );
  if (item === undefined) throw new Raised('IndexError', 'pop index out of range');
  return item;
}

function inside(list: readonly Value[], index: number): boolean {
  return index >= -list.length && index < list.length;
}

const countMethod = <Self>(itemsOf: (self: Self) => readonly Value[]): Method<Self> =>
  method(['value'], [], (self, meter, wanted) => {
    const items = itemsOf(self);
    meter.step(items.length);
    return items.filter((item) => equals(item, wanted ?? null)).length;
  });

const indexMethod = <Self>(itemsOf: (self: Self) => readonly Value[], type: string): Method<Self> =>
  method(['value', 'start', 'stop'], [null, null], (self, meter, wanted, start, stop) => {
    const items = itemsOf(self);
    meter.step(items.length);
    const found = find(items, wanted ?? null, start ?? null, stop ?? null);
    if (found < 0) throw valueError(`${type}.index(x): x not in ${type}`);
    return found;
  });

/** The methods of `list`. */
export const listMethods: Methods<Value[]> = new Map<string, Method<Value[]>>([
  [
    'append',
    method(['object'], [], (list, meter, item) => {
      meter.step();
      list.push(item ?? null);
      return null;
    }),
  ],
  [
    'clear',
    method([], [], (list) => {
      list.length = 0;
      return null;
    }),
  ],
  [
    'copy',
    method([], [], (list, meter) => {
      meter.step(list.length);
      return [...list];
    }),
  ],
  ['count', countMethod((list) => list)],
  [
    'extend',
    method(['iterable'], [], (list, meter, items) => {
      for (const item of toArray(items ?? null, () => meter.step())) list.push(item);
      return null;
    }),
  ],
  ['index', indexMethod((list) => list, 'list')],
  [
    'insert',
    method(['index', 'object'], [], (list, meter, index, item) => {
      meter.step();
      const at = asIndex(index ?? null);
      list.splice(at < 0 ? Math.max(0, at + list.length) : at, 0, item ?? null);
      return null;
    }),
  ],
  ['pop', method(['index'], [-1], (list, _meter, index) => pop(list, index ?? -1))],
  [
    'remove',
    method(['value'], [], (list, meter, value) => {
      meter.step(list.length);
      const found = find(list, value ?? null, null, null);
      if (found < 0) throw valueError('list.remove(x): x not in list');
      list.splice(found, 1);
      return null;
    }),
  ],
  [
    'reverse',
    method([], [], (list, meter) => {
      meter.step(list.length);
      list.reverse();
      return null;
    }),
  ],
  [
    'sort',
    method(['key', 'reverse'], [null, false], (list, meter, key, reverse) =>
      sortInPlace(list, key ?? null, reverse ?? false, meter),
    ),
  ],
]);

/** The methods of `tuple`. */
export const tupleMethods: Methods<Tuple> = new Map<string, Method<Tuple>>([
  ['count', countMethod(({ items }) => items)],
  ['index', indexMethod(({ items }) => items, 'tuple')],
]);

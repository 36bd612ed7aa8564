/** Converts between JavaScript data and Python values. */

import { typeError } from './exceptions.ts';
import { RecursionGuard } from './limits.ts';
import { normalizeInteger } from './numbers.ts';
import { typeName } from './repr.ts';
import {
  Bytes,
  Dict,
  Float,
  isPyObject,
  Lazy,
  Markup,
  PySet,
  Range,
  Tuple,
  Undefined,
  type Value,
} from './values.ts';

/**
 * Converts JavaScript data to values. Whole numbers become `int`, other numbers `float`, and
 * objects and maps `dict`. Python values are returned unchanged.
 * @throws PythonException TypeError for functions and other unsupported types; LimitExceeded for
 * cyclic data or too much data
 */
export function toPython(data: unknown, walk: RecursionGuard = new RecursionGuard()): Value {
  switch (typeof data) {
    case 'string':
    case 'boolean':
      return data;
    case 'bigint':
      return normalizeInteger(data);
    case 'number':
      return Number.isSafeInteger(data) && !Object.is(data, -0) ? data : new Float(data);
    case 'undefined':
      return null;
    case 'object':
      return data === null ? null : fromObject(data, walk);
    default:
      throw typeError(
        `a value of the JavaScript type ${typeof data} cannot be passed to a template`,
      );
  }
}

function fromObject(data: object, walk: RecursionGuard): Value {
  if (isPythonObject(data)) return data;
  return walk.into(data, () => {
    walk.take(1);
    if (Array.isArray(data)) return data.map((item) => toPython(item, walk));
    if (data instanceof Uint8Array) return new Bytes(data);
    if (data instanceof Set) return new PySet(Array.from(data, (item) => toPython(item, walk)));
    const entries = data instanceof Map ? [...data] : Object.entries(data);
    return new Dict(
      entries.map(([key, value]) => [toPython(key, walk), toPython(value, walk)] as const),
    );
  });
}

function isPythonObject(data: object): data is Exclude<Value & object, Value[]> {
  return (
    data instanceof Dict ||
    data instanceof Float ||
    data instanceof Tuple ||
    data instanceof Markup ||
    data instanceof Bytes ||
    data instanceof PySet ||
    data instanceof Range ||
    data instanceof Lazy ||
    data instanceof Undefined ||
    ('repr' in data && typeof data.repr === 'function' && 'typeName' in data)
  );
}

/** Data without Python classes. A dict is a `Map`, because its keys may be of any type. */
export type PlainData =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float
  | readonly PlainData[]
  | ReadonlyMap<PlainData, PlainData>;

/**
 * Converts values to plain data. A float without a fraction remains a {@link Float}, so that 2.0
 * does not become 2.
 * @throws PythonException TypeError for values that are not data, UndefinedError; LimitExceeded
 */
export function toPlain(value: Value, walk: RecursionGuard = new RecursionGuard()): PlainData {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Float) return Number.isInteger(value.value) ? value : value.value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Bytes) return value.bytes;
  if (value instanceof Undefined) throw value.error();
  return walk.into(value, () => {
    const all = (items: readonly Value[]): PlainData[] => items.map((item) => toPlain(item, walk));
    if (Array.isArray(value)) return all(value);
    if (value instanceof Tuple) return all(value.items);
    if (value instanceof PySet) return all(value.values());
    if (value instanceof Dict) {
      return new Map(Array.from(value.entries(), ([k, v]) => [toPlain(k, walk), toPlain(v, walk)]));
    }
    const name = isPyObject(value) ? value.typeName : typeName(value);
    throw typeError(`a value of type '${name}' cannot be converted to plain data`);
  });
}

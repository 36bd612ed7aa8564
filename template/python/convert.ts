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
 * Original Python values of converted data. The key is a list or map of plain data, and the value
 * is the Python value that was converted to it. {@link toPython} uses this map to return the
 * original value.
 */
export type Origins = Map<object, Value>;

/**
 * Converts JavaScript data to values. Whole numbers become `int`, other numbers `float`, and
 * objects and maps `dict`. Python values are returned unchanged.
 * @param origins - original values of the lists and maps that {@link toPlain} has converted. For
 * these lists and maps, the original value is returned
 * @throws PythonException TypeError for functions and other unsupported types; LimitExceeded for
 * cyclic data or too much data
 */
export function toPython(
  data: unknown,
  walk: RecursionGuard = new RecursionGuard(),
  origins?: Origins,
): Value {
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
      return data === null ? null : (origins?.get(data) ?? fromObject(data, walk, origins));
    default:
      throw typeError(
        `a value of the JavaScript type ${typeof data} cannot be passed to a template`,
      );
  }
}

function fromObject(data: object, walk: RecursionGuard, origins: Origins | undefined): Value {
  if (isPythonObject(data)) return data;
  const convert = (item: unknown): Value => toPython(item, walk, origins);
  return walk.into(data, () => {
    walk.take(1);
    if (Array.isArray(data)) return data.map(convert);
    if (data instanceof Uint8Array) return new Bytes(data);
    if (data instanceof Set) return new PySet(Array.from(data, convert));
    const entries = data instanceof Map ? [...data] : Object.entries(data);
    return new Dict(entries.map(([key, value]) => [convert(key), convert(value)] as const));
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
 * @param origins - receives the original value of each converted list and map
 * @param made - converted lists and maps by their original values. Several references to one list or
 * map are then converted to references to one result
 * @throws PythonException TypeError for values that are not data, UndefinedError; LimitExceeded
 */
export function toPlain(
  value: Value,
  walk: RecursionGuard = new RecursionGuard(),
  origins?: Origins,
  made?: Map<Value, PlainData>,
): PlainData {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Float) return Number.isInteger(value.value) ? value : value.value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Bytes) return value.bytes;
  if (value instanceof Undefined) throw value.error();
  const known = made?.get(value);
  if (known !== undefined) return known;
  const convert = (item: Value): PlainData => toPlain(item, walk, origins, made);
  return walk.into(value, () => {
    const data = containerOf(value, convert);
    origins?.set(data, value);
    made?.set(value, data);
    return data;
  });
}

/**
 * Converts a list, tuple, set or dict to plain data.
 * @throws PythonException TypeError for other values
 */
function containerOf(
  value: Exclude<Value & object, Float | Markup | Bytes | Undefined>,
  convert: (item: Value) => PlainData,
): PlainData & object {
  if (Array.isArray(value)) return value.map(convert);
  if (value instanceof Tuple) return value.items.map(convert);
  if (value instanceof PySet) return value.values().map(convert);
  if (value instanceof Dict) {
    return new Map(Array.from(value.entries(), ([k, v]) => [convert(k), convert(v)]));
  }
  const name = isPyObject(value) ? value.typeName : typeName(value);
  throw typeError(`a value of type '${name}' cannot be converted to plain data`);
}

/** Salt's filters for lists and dicts [salt/utils/jinja.py, salt/utils/data.py]. */

import { contains, equals, sortValues } from '../python/comparison.ts';
import { PythonException, typeError } from '../python/exceptions.ts';
import { readLate } from '../python/late.ts';
import { binaryOperation } from '../python/operators.ts';
import { typeName } from '../python/repr.ts';
import { isTruthy, lengthOf, tryLength } from '../python/sequences.ts';
import { tryItem } from '../python/subscripts.ts';
import {
  type Arguments,
  Dict,
  Float,
  isInteger,
  isPyObject,
  isText,
  PySet,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { lowerCased } from './attribute-getter.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
  variadicFilter,
} from './definition.ts';
import { extreme } from './jinja-collections.ts';
import { toFloat } from './jinja-numbers.ts';
import { isIterable } from './jinja-scalars.ts';
import { sizeOf } from './salt-itertools.ts';
import { hasHash } from './salt-sets.ts';

function average(value: Value, context: FilterContext): Value {
  if (hasHash(value)) return new Float(toFloat(value));
  let total: Value = 0;
  for (const item of iterateItems(value, context))
    total = binaryOperation(total, '+', item, context.meter);
  return binaryOperation(
    binaryOperation(total, '/', lengthOf(value), context.meter),
    '*',
    new Float(1),
    context.meter,
  );
}

function toBool(value: Value): boolean {
  if (value === null || typeof value === 'boolean') return value === true;
  if (isText(value)) return ['yes', '1', 'true'].includes(textOf(value).toLowerCase());
  if (isInteger(value)) return value > 0;
  return hasHash(value) ? false : lengthOf(value) > 0;
}

/** Returns the value at a path such as `a:b:0` in nested data [traverse_dict_and_list]. */
function traverse(data: Value, key: Value, fallback: Value, delimiter: Value): Value {
  if (data instanceof Undefined) throw data.error();
  const parts = isText(key)
    ? textOf(key).split(textOf(isText(delimiter) ? delimiter : ':'))
    : [key];
  let value: Value = data;
  for (const part of parts) {
    const found: Value | undefined = Array.isArray(value)
      ? fromList(value, part)
      : fromDict(value, part);
    if (found === undefined) return fallback;
    value = found;
  }
  return value;
}

function fromList(list: readonly Value[], part: Value): Value | undefined {
  if (isText(part) && /^[+-]?\d+$/.test(textOf(part))) return list.at(Number(textOf(part)));
  for (const member of list) {
    const found = member instanceof Dict ? member.get(part) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Returns the value of a key in a dict. A key that consists of digits is also tried as a number.
 */
function fromDict(value: Value, part: Value): Value | undefined {
  const found = tryItem(value, part);
  if (found !== undefined || !isText(part)) return found;
  return /^\d+$/.test(textOf(part)) ? tryItem(value, Number(textOf(part))) : undefined;
}

function* flatten(
  value: Value,
  levels: number,
  keepNulls: boolean,
  context: FilterContext,
): Generator<Value> {
  for (const item of iterateItems(value, context)) {
    if (!keepNulls && (item === null || item === 'None' || item === 'null')) continue;
    if (levels === 0 || isText(item) || !isIterable(item)) {
      yield item;
      continue;
    }
    context.meter.enter();
    yield* flatten(item, levels - 1, keepNulls, context);
    context.meter.leave();
  }
}

function compareDicts(left: Value, right: Value): Value {
  const old = left instanceof Dict ? left : new Dict();
  const fresh = right instanceof Dict ? right : new Dict();
  const changes = new Dict();
  for (const key of new PySet([...fresh.keys(), ...old.keys()]).values()) {
    const before = old.get(key);
    const after = fresh.get(key);
    if (before !== undefined && after !== undefined && equals(before, after)) continue;
    changes.set(
      key,
      new Dict([
        ['old', before ?? (old.has(key) ? null : '')],
        ['new', after ?? (fresh.has(key) ? null : '')],
      ]),
    );
  }
  return changes;
}

function compareLists(left: Value, right: Value, context: FilterContext): Value {
  const result = new Dict();
  context.meter.comparisons(2 * (tryLength(left) ?? 0) * (tryLength(right) ?? 0));
  const fresh = itemsNotIn(left, right, context);
  const old = itemsNotIn(right, left, context);
  if (fresh.length > 0) result.set('new', fresh);
  if (old.length > 0) result.set('old', old);
  return result;
}

/** Returns the items of `values` that `container` does not contain. */
function itemsNotIn(container: Value, values: Value, context: FilterContext): Value[] {
  return [...iterateItems(values, context)].filter((item) => !contains(container, item));
}

function toEntries(data: Value): Value {
  if (data instanceof Dict) {
    return Array.from(
      data.entries(),
      ([key, value]) =>
        new Dict([
          ['key', key],
          ['value', value],
        ]),
    );
  }
  if (data instanceof Undefined) throw data.error();
  if (!Array.isArray(data)) {
    throw new PythonException('SaltException', 'Input data must be a dict or list');
  }
  return data.map(
    (value, index) =>
      new Dict([
        ['key', index],
        ['value', value],
      ]),
  );
}

/**
 * Converts a list of entries to a dict. The key of an entry is its `key`, or else its `name`; the
 * case of these words is ignored.
 */
function fromEntries(entries: Value, context: FilterContext): Value {
  const result = new Dict();
  for (const entry of iterateItems(entries, context)) {
    if (!(entry instanceof Dict))
      throw typeError('each entry of the list must be a dict with the field `key` or `name`');
    const folds = new Dict(Array.from(entry.entries(), ([k, v]) => [lowerCased(k), v] as const));
    const key = folds.get('key') ?? null;
    const name = isTruthy(key) ? key : (folds.get('name') ?? null);
    if (isTruthy(name)) result.set(name, folds.get('value') ?? null);
  }
  return result;
}

function callMethod(context: FilterContext, { positional, named }: Arguments): Value {
  const [object = null, name = null, ...args] = positional;
  if (object instanceof Undefined) throw object.error();
  const found = context.lookup.attribute(object, isText(name) ? textOf(name) : '');
  if (found instanceof Undefined) return null;
  if (!isPyObject(found) || found.call === undefined)
    throw typeError('method_call() requires the name of a method');
  return readLate(found.call({ positional: args, named }));
}

function lowered(value: Value): Value {
  if (value instanceof Undefined) throw value.error();
  if (isText(value)) return textOf(value).toLowerCase();
  throw new PythonException(
    'AttributeError',
    `'${typeName(value)}' object has no attribute 'lower'`,
  );
}

/** Salt's list and dict filters by name. */
export const saltDataFilters: FilterDefinitions = {
  avg: simpleFilter(average),
  compare_dicts: defineFilter(['old', 'new'], [null], (_context, left = null, right = null) =>
    compareDicts(left, right),
  ),
  compare_lists: defineFilter(['old', 'new'], [null], (context, left = null, right = null) =>
    compareLists(left, right, context),
  ),
  exactly_n_true: defineFilter(['iterable', 'amount'], [1], (context, value = null, amount = 1) =>
    equals([...iterateItems(value, context)].filter(isTruthy).length, amount),
  ),
  exactly_one_true: simpleFilter(
    (value, context) => [...iterateItems(value, context)].filter(isTruthy).length === 1,
  ),
  flatten: defineFilter(
    ['data', 'levels', 'preserve_nulls'],
    [null, false],
    (context, value = null, levels = null, keep = false) => [
      ...flatten(value, sizeOf(levels, -1), isTruthy(keep), context),
    ],
  ),
  from_entries: simpleFilter(fromEntries),
  is_iter: simpleFilter((value) => !isText(value) && isIterable(value)),
  is_list: simpleFilter(Array.isArray),
  is_sorted: simpleFilter((value, context) => {
    const list = [...iterateItems(value, context)];
    return equals(list, sortValues(list, {}, context.meter));
  }),
  max: simpleFilter((value, context) => extreme(value, true, context)),
  method_call: variadicFilter(callMethod),
  min: simpleFilter((value, context) => extreme(value, false, context)),
  sequence: simpleFilter((value) =>
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof PySet ||
    value instanceof Dict
      ? value
      : [value],
  ),
  sorted_ignorecase: simpleFilter((value, context) =>
    sortValues([...iterateItems(value, context)], { key: lowered }, context.meter),
  ),
  substring_in_list: defineFilter(
    ['string_to_search_for', 'list_to_search'],
    [],
    (context, text = null, list = null) =>
      [...iterateItems(list, context)].some((item) => contains(item, text)),
  ),
  to_bool: simpleFilter(toBool),
  to_entries: simpleFilter(toEntries),
  traverse: defineFilter(
    ['data', 'key', 'default', 'delimiter'],
    [null, ':'],
    (_context, data = null, key = null, fallback = null, delimiter = ':') =>
      traverse(data, key, fallback, delimiter),
  ),
};

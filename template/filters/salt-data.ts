/** Salt's filters for lists and dicts [salt/utils/jinja.py, salt/utils/data.py]. */
import { contains, equals } from '../python/compare.ts';
import { isTrue, lengthOf } from '../python/iterate.ts';
import { binary } from '../python/operators.ts';
import { Raised, typeError } from '../python/raise.ts';
import { typeName } from '../python/repr.ts';
import { tryItem } from '../python/slice.ts';
import { sorted } from '../python/sort.ts';
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
import { folded } from './attribute-getter.ts';
import {
  type Definitions,
  define,
  type FilterContext,
  items,
  simple,
  variadic,
} from './definition.ts';
import { sizeOf } from './itertools.ts';
import { toFloat } from './number.ts';
import { extreme } from './sequence.ts';
import { asList, hasHash } from './set-operations.ts';
import { isIterable } from './text.ts';

function average(value: Value, context: FilterContext): Value {
  if (hasHash(value)) return new Float(toFloat(value));
  let total: Value = 0;
  for (const item of items(value, context)) total = binary(total, '+', item, context.meter);
  return binary(
    binary(total, '/', lengthOf(value), context.meter),
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

/** `a:b:0` into nested data [traverse_dict_and_list]. */
function traverse(data: Value, key: Value, fallback: Value, delimiter: Value): Value {
  const parts = isText(key)
    ? textOf(key).split(textOf(isText(delimiter) ? delimiter : ':'))
    : [key];
  let value = data;
  for (const part of parts) {
    const found = Array.isArray(value) ? fromList(value, part) : fromDict(value, part);
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

/** A key of digits is tried as a number too. */
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
  for (const item of items(value, context)) {
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

function compareLists(left: Value, right: Value, { meter }: FilterContext): Value {
  const result = new Dict();
  meter.comparisons(2 * asList(left).length * asList(right).length);
  const fresh = asList(right).filter((item) => !contains([...asList(left)], item));
  const old = asList(left).filter((item) => !contains([...asList(right)], item));
  if (fresh.length > 0) result.set('new', fresh);
  if (old.length > 0) result.set('old', old);
  return result;
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
    throw new Raised('SaltException', 'Input data must be a dict or list');
  }
  return data.map(
    (value, index) =>
      new Dict([
        ['key', index],
        ['value', value],
      ]),
  );
}

/** The first of `key` and `name` that says something, in any case. */
function fromEntries(entries: Value, context: FilterContext): Value {
  const result = new Dict();
  for (const entry of items(entries, context)) {
    if (!(entry instanceof Dict)) throw typeError('an entry must be a dict');
    const folds = new Dict(Array.from(entry.entries(), ([k, v]) => [folded(k), v] as const));
    const key = folds.get('key') ?? null;
    const name = isTrue(key) ? key : (folds.get('name') ?? null);
    if (isTrue(name)) result.set(name, folds.get('value') ?? null);
  }
  return result;
}

function callMethod(context: FilterContext, { positional, named }: Arguments): Value {
  const [object = null, name = null, ...args] = positional;
  if (object instanceof Undefined) throw object.error();
  const found = context.lookup.attribute(object, isText(name) ? textOf(name) : '');
  if (found instanceof Undefined) return null;
  if (!isPyObject(found) || found.call === undefined)
    throw typeError('the attribute is not callable');
  return found.call({ positional: args, named });
}

function lowered(value: Value): Value {
  if (value instanceof Undefined) throw value.error();
  if (isText(value)) return textOf(value).toLowerCase();
  throw new Raised('AttributeError', `'${typeName(value)}' object has no attribute 'lower'`);
}

/** The filters by name. */
export const saltDataFilters: Definitions = {
  avg: simple(average),
  compare_dicts: define(['old', 'new'], [null], (_context, left = null, right = null) =>
    compareDicts(left, right),
  ),
  compare_lists: define(['old', 'new'], [null], (context, left = null, right = null) =>
    compareLists(left, right, context),
  ),
  exactly_n_true: define(['iterable', 'amount'], [1], (context, value = null, amount = 1) =>
    equals([...items(value, context)].filter(isTrue).length, amount),
  ),
  exactly_one_true: simple(
    (value, context) => [...items(value, context)].filter(isTrue).length === 1,
  ),
  flatten: define(
    ['data', 'levels', 'preserve_nulls'],
    [null, false],
    (context, value = null, levels = null, keep = false) => [
      ...flatten(value, sizeOf(levels, -1), isTrue(keep), context),
    ],
  ),
  from_entries: simple(fromEntries),
  is_iter: simple((value) => !isText(value) && isIterable(value)),
  is_list: simple(Array.isArray),
  is_sorted: simple((value, context) => {
    const list = [...items(value, context)];
    return equals(list, sorted(list, {}, context.meter));
  }),
  max: simple((value, context) => extreme(value, true, context)),
  method_call: variadic(callMethod),
  min: simple((value, context) => extreme(value, false, context)),
  sequence: simple((value) =>
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof PySet ||
    value instanceof Dict
      ? value
      : [value],
  ),
  sorted_ignorecase: simple((value, context) =>
    sorted([...items(value, context)], { key: lowered }, context.meter),
  ),
  substring_in_list: define(
    ['string_to_search_for', 'list_to_search'],
    [],
    (context, text = null, list = null) =>
      [...items(list, context)].some((item) => contains(item, text)),
  ),
  to_bool: simple(toBool),
  to_entries: simple(toEntries),
  traverse: define(
    ['data', 'key', 'default', 'delimiter'],
    [null, ':'],
    (_context, data = null, key = null, fallback = null, delimiter = ':') =>
      traverse(data, key, fallback, delimiter),
  ),
};

/** Salt's filters for lists and dicts [salt/utils/jinja.py, salt/utils/data.py]. */

import { PythonException, typeError } from '../python/exceptions.ts';
import { binaryOperation, contains, equals, sortValues } from '../python/operators.ts';
import { isHashable, isTruthy, lengthOf, tryItem } from '../python/sequences.ts';
import {
  type Arguments,
  Dict,
  Float,
  isInteger,
  isPyObject,
  isText,
  Lazy,
  PySet,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
  lowerCased,
  simpleFilter,
  variadicFilter,
} from './definition.ts';
import { extreme } from './jinja-collections.ts';
import { isIterable, toFloat } from './jinja-scalars.ts';

// Salt's filters of Python's itertools [salt/utils/jinja.py].

function* combinations(
  pool: readonly Value[],
  size: number,
  context: FilterContext,
  withRepeats: boolean,
  start = 0,
): Generator<Value[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (let index = start; index < pool.length; index += 1) {
    const item = pool[index] ?? null;
    for (const rest of combinations(
      pool,
      size - 1,
      context,
      withRepeats,
      withRepeats ? index : index + 1,
    )) {
      context.meter.step();
      yield [item, ...rest];
    }
  }
}

function* permutations(
  pool: readonly Value[],
  size: number,
  context: FilterContext,
): Generator<Value[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (const [index, item] of pool.entries()) {
    for (const rest of permutations(pool.toSpliced(index, 1), size - 1, context)) {
      context.meter.step();
      yield [item, ...rest];
    }
  }
}

function* product(
  pools: readonly (readonly Value[])[],
  context: FilterContext,
): Generator<Value[]> {
  const [first, ...others] = pools;
  if (first === undefined) {
    yield [];
    return;
  }
  for (const item of first) {
    for (const rest of product(others, context)) {
      context.meter.step();
      yield [item, ...rest];
    }
  }
}

function* tuples(lists: Iterable<Value[]>): Generator<Value> {
  for (const list of lists) yield new Tuple(list);
}

function* zip(pools: readonly (readonly Value[])[], length: number, fill: Value): Generator<Value> {
  for (let index = 0; index < length; index += 1) {
    yield new Tuple(pools.map((pool) => (index < pool.length ? (pool[index] ?? null) : fill)));
  }
}

function pools(args: readonly Value[], context: FilterContext): Value[][] {
  return args.map((value) => [...iterateItems(value, context)]);
}

const lengths = (lists: readonly (readonly Value[])[]): number[] =>
  lists.map(({ length }) => length);

function* compress(value: Value, selectors: Value, context: FilterContext): Generator<Value> {
  const marks = iterateItems(selectors, context);
  for (const item of iterateItems(value, context)) {
    const mark = marks.next();
    if (mark.done === true) return;
    if (isTruthy(mark.value)) yield item;
  }
}

/** An integer, or the fallback for `None`. @throws PythonException TypeError */
function sizeOf(value: Value, fallback: number): number {
  if (value === null) return fallback;
  if (!isInteger(value))
    throw typeError(`'${typeName(value)}' object cannot be interpreted as an integer`);
  return Number(value);
}

/** The filters by name. */
export const itertoolsFilters: FilterDefinitions = {
  combinations: defineFilter(
    ['iterable', 'r'],
    [],
    (context, value = null, size = null) =>
      new Lazy(
        tuples(combinations([...iterateItems(value, context)], sizeOf(size, 0), context, false)),
        'combinations',
      ),
  ),
  combinations_with_replacement: defineFilter(
    ['iterable', 'r'],
    [],
    (context, value = null, size = null) =>
      new Lazy(
        tuples(combinations([...iterateItems(value, context)], sizeOf(size, 0), context, true)),
        'combinations_with_replacement',
      ),
  ),
  compress: defineFilter(
    ['data', 'selectors'],
    [],
    (context, value = null, selectors = null) =>
      new Lazy(compress(value, selectors, context), 'compress'),
  ),
  permutations: defineFilter(['iterable', 'r'], [null], (context, value = null, size = null) => {
    const pool = [...iterateItems(value, context)];
    return new Lazy(tuples(permutations(pool, sizeOf(size, pool.length), context)), 'permutations');
  }),
  product: variadicFilter(
    (context, { positional }) =>
      new Lazy(tuples(product(pools(positional, context), context)), 'product'),
  ),
  zip: variadicFilter((context, { positional }) => {
    const lists = pools(positional, context);
    return new Lazy(zip(lists, lists.length === 0 ? 0 : Math.min(...lengths(lists)), null), 'zip');
  }),
  zip_longest: variadicFilter((context, { positional, named }) => {
    const lists = pools(positional, context);
    return new Lazy(
      zip(lists, Math.max(0, ...lengths(lists)), named.get('fillvalue') ?? null),
      'zip_longest',
    );
  }),
};

// Salt's filters that take lists as sets [salt/utils/jinja.py].

/** Salt's `isinstance(value, Hashable)`, which looks at the type only. */
function hasHash(value: Value): boolean {
  if (isPyObject(value) && /^dict_(keys|items)$/.test(value.typeName)) return false;
  return value instanceof Tuple || isHashable(value);
}

function unique(values: Value, context: FilterContext): Value {
  if (hasHash(values)) return new PySet(iterateItems(values, context));
  return distinct([...iterateItems(values, context)], context);
}

function distinct(values: readonly Value[], { meter }: FilterContext): Value[] {
  if (values.every(isHashable)) return new PySet(values).values();
  const kept: Value[] = [];
  for (const value of values) {
    meter.step(kept.length);
    if (!kept.some((known) => equals(known, value))) kept.push(value);
  }
  return kept;
}

/** Sets for what has a hash, lists for the rest; as Salt does. */
function setOperation(
  keep: (inLeft: boolean, inRight: boolean) => boolean,
  isUnion = false,
): FilterDefinition {
  return defineFilter(['lst1', 'lst2'], [], (context, left = null, right = null) => {
    if (hasHash(left) && hasHash(right)) {
      const first = new PySet(iterateItems(left, context));
      const second = new PySet(iterateItems(right, context));
      const both = new PySet([...first.values(), ...second.values()]).values();
      return new PySet(both.filter((item) => keep(first.has(item), second.has(item))));
    }
    if (isUnion) return distinct(sumOf(left, right, context), context);
    const all = keep(false, true) ? sumOf(left, right, context) : [...iterateItems(left, context)];
    context.meter.step(all.length * (1 + lengthOf(right)));
    return distinct(
      all.filter((item) => keep(contains(left, item), contains(right, item))),
      context,
    );
  });
}

/** `left + right`, as a list. @throws PythonException TypeError */
function sumOf(left: Value, right: Value, context: FilterContext): readonly Value[] {
  return asList(binaryOperation(left, '+', right, context.meter));
}

/** The items of a list or tuple; none of anything else. */
function asList(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : [];
}

/** The filters by name. */
export const setFilters: FilterDefinitions = {
  difference: setOperation((inLeft, inRight) => inLeft && !inRight),
  intersect: setOperation((inLeft, inRight) => inLeft && inRight),
  symmetric_difference: setOperation((inLeft, inRight) => inLeft !== inRight),
  union: setOperation(() => true, true),
  unique: simpleFilter(unique),
};

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

/** The first of `key` and `name` that says something, in any case. */
function fromEntries(entries: Value, context: FilterContext): Value {
  const result = new Dict();
  for (const entry of iterateItems(entries, context)) {
    if (!(entry instanceof Dict)) throw typeError('an entry must be a dict');
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
    throw typeError('the attribute is not callable');
  return found.call({ positional: args, named });
}

function lowered(value: Value): Value {
  if (value instanceof Undefined) throw value.error();
  if (isText(value)) return textOf(value).toLowerCase();
  throw new PythonException(
    'AttributeError',
    `'${typeName(value)}' object has no attribute 'lower'`,
  );
}

/** The filters by name. */
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

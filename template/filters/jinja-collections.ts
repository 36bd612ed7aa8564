/** jinja2's filters for lists and dicts. */

import { tryAttribute } from '../python/attributes.ts';
import { equals, isOrdered, sortValues } from '../python/comparison.ts';
import { PythonException, typeError, valueError } from '../python/exceptions.ts';
import { binaryOperation } from '../python/operators.ts';
import { describeObject, textRepr, typeName } from '../python/repr.ts';
import { isTruthy, iterate, lengthOf, toArray } from '../python/sequences.ts';
import { asIndex } from '../python/subscripts.ts';
import { charactersOf } from '../python/text.ts';
import {
  Dict,
  isText,
  Lazy,
  Markup,
  Range,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { attributeGetter, attributesGetter, lowerCased } from './attribute-getter.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
  undefinedValue,
} from './definition.ts';

function all(value: Value, context: FilterContext): Value[] {
  return [...iterateItems(value, context)];
}

function* batches(
  value: Value,
  size: Value,
  fill: Value,
  context: FilterContext,
): Generator<Value> {
  let batch: Value[] = [];
  for (const item of iterateItems(value, context)) {
    if (equals(batch.length, size)) {
      yield batch;
      batch = [];
    }
    batch.push(item);
  }
  if (batch.length === 0) return;
  if (fill !== null && isOrdered(batch.length, '<', size)) {
    const missingItems = asIndex(size) - batch.length;
    context.meter.step(missingItems);
    batch.push(...Array.from({ length: missingItems }, () => fill));
  }
  yield batch;
}

function* slices(
  value: Value,
  count: Value,
  fill: Value,
  context: FilterContext,
): Generator<Value> {
  const list = all(value, context);
  const number = asIndex(count);
  if (number === 0)
    throw new PythonException('ZeroDivisionError', 'integer division or modulo by zero');
  const size = Math.floor(list.length / number);
  const larger = list.length - size * number;
  let offset = 0;
  for (let index = 0; index < number; index += 1) {
    context.meter.step();
    const start = offset + index * size;
    if (index < larger) offset += 1;
    const slice = list.slice(start, offset + (index + 1) * size);
    if (fill !== null && index >= larger) slice.push(fill);
    yield slice;
  }
}

function dictSort(context: FilterContext, value: Value, args: readonly Value[]): Value {
  const [caseSensitive = false, by = 'key', reverse = false] = args;
  if (by !== 'key' && by !== 'value') {
    throw new PythonException(
      'FilterArgumentError',
      'You can only sort by either "key" or "value"',
    );
  }
  const pairs = Array.from(pairsOf(value), ([k, v]) => new Tuple([k, v]));
  const place = by === 'key' ? 0 : 1;
  const key = (pair: Value): Value => {
    const item = pair instanceof Tuple ? (pair.items[place] ?? null) : null;
    return isTruthy(caseSensitive) ? item : lowerCased(item);
  };
  return sortValues(pairs, { key, reverse: isTruthy(reverse) }, context.meter);
}

/**
 * Returns the items of a dict.
 * @throws PythonException AttributeError for values without `items()`
 */
function pairsOf(value: Value): Iterable<readonly [Value, Value]> {
  if (value instanceof Dict) return value.entries();
  if (value instanceof Undefined) throw value.error();
  throw new PythonException(
    'AttributeError',
    `'${typeName(value)}' object has no attribute 'items'`,
  );
}

function last(value: Value, context: FilterContext): Value {
  const reversedItems = reversed(value);
  const next = reversedItems.next();
  return next.done === true
    ? undefinedValue(context, 'No last item, sequence was empty.')
    : next.value;
}

/**
 * Implements `reversed(value)`.
 * @throws PythonException TypeError if the type of the value has no order of items, for example a
 * set
 */
function reversed(value: Value): Iterator<Value> {
  if (value instanceof Undefined && value.isStrict) throw value.error();
  if (!hasOrder(value)) throw typeError(`'${typeName(value)}' object is not reversible`);
  return toArray(value, () => {})
    .reverse()
    .values();
}

function hasOrder(value: Value): boolean {
  if (Array.isArray(value) || isText(value) || value instanceof Tuple) return true;
  if (value instanceof Dict || value instanceof Range) return true;
  return (
    typeof value === 'object' &&
    value !== null &&
    'typeName' in value &&
    value.typeName.startsWith('dict_')
  );
}

function reverse(value: Value, context: FilterContext): Value {
  if (typeof value === 'string') return charactersOf(value).reverse().join('');
  if (value instanceof Markup) return new Markup(charactersOf(value.text).reverse().join(''));
  if (hasOrder(value)) {
    context.meter.step(lengthOf(value));
    return new Lazy(reversed(value), Array.isArray(value) ? 'list_reverseiterator' : 'reversed');
  }
  try {
    return all(value, context).reverse();
  } catch (error) {
    if (!(error instanceof PythonException) || error.kind !== 'TypeError') throw error;
    throw new PythonException('FilterArgumentError', 'argument must be iterable');
  }
}

/**
 * Implements Python's `min` and `max`.
 * @throws PythonException ValueError for an empty value, TypeError
 */
export function extreme(value: Value, isMax: boolean, context: FilterContext): Value {
  let best: Value | undefined;
  for (const item of iterateItems(value, context)) {
    if (best === undefined || isOrdered(item, isMax ? '>' : '<', best)) best = item;
  }
  if (best === undefined) throw valueError(`${isMax ? 'max' : 'min'}() arg is an empty sequence`);
  return best;
}

function groupBy(context: FilterContext, value: Value, args: readonly Value[]): Value {
  const [attribute = null, fallback = null, caseSensitive = false] = args;
  const ignoreCase = !isTruthy(caseSensitive);
  const get = attributeGetter(context, attribute, { fallback, ignoreCase });
  const shown = attributeGetter(context, attribute, { fallback });
  const groups: { key: Value; list: Value[] }[] = [];
  for (const item of sortValues(all(value, context), { key: get }, context.meter)) {
    const key = get(item);
    const group = groups.at(-1);
    if (group !== undefined && equals(group.key, key)) group.list.push(item);
    else groups.push({ key, list: [item] });
  }
  return groups.map(({ key, list }) => {
    const [first = null] = list;
    return new Tuple([ignoreCase ? shown(first) : key, list], ['grouper', 'list']);
  });
}

function sum(context: FilterContext, value: Value, attribute: Value, start: Value): Value {
  if (isText(start)) throw typeError("sum() can't sum strings [use ''.join(seq) instead]");
  const get = attributeGetter(context, attribute);
  let total: Value = start;
  for (const item of iterateItems(value, context))
    total = binaryOperation(total, '+', get(item), context.meter);
  return total;
}

function* dictItems(value: Value): Generator<Value> {
  if (value instanceof Undefined) return;
  if (!(value instanceof Dict)) throw typeError('Can only get item pairs from a mapping.');
  for (const [k, v] of value.entries()) yield new Tuple([k, v]);
}

/** jinja2's list and dict filters by name. */
export const sequenceFilters: FilterDefinitions = {
  attr: defineFilter(['obj', 'name'], [], (context, object = null, name = null) => {
    if (!isText(name)) throw typeError('attribute name must be string');
    if (object instanceof Undefined) throw object.error();
    const found = tryAttribute(object, textOf(name), context);
    return found === undefined
      ? undefinedValue(
          context,
          `${textRepr(describeObject(object))} has no attribute ${textRepr(textOf(name))}`,
        )
      : found;
  }),
  batch: defineFilter(
    ['value', 'linecount', 'fill_with'],
    [null],
    (context, value = null, count = null, fill = null) =>
      new Lazy(batches(value, count, fill, context)),
  ),
  count: simpleFilter(lengthOf),
  d: defineFilter(['value', 'default_value', 'boolean'], ['', false], withDefault),
  default: defineFilter(['value', 'default_value', 'boolean'], ['', false], withDefault),
  dictsort: defineFilter(
    ['value', 'case_sensitive', 'by', 'reverse'],
    [false, 'key', false],
    (context, value = null, ...args) => dictSort(context, value, args),
  ),
  first: simpleFilter((value, context) => {
    const next = iterate(value).next();
    return next.done === true
      ? undefinedValue(context, 'No first item, sequence was empty.')
      : next.value;
  }),
  groupby: defineFilter(
    ['value', 'attribute', 'default', 'case_sensitive'],
    [null, false],
    (context, value = null, ...args) => groupBy(context, value, args),
  ),
  items: simpleFilter((value) => new Lazy(dictItems(value))),
  last: simpleFilter(last),
  length: simpleFilter(lengthOf),
  list: simpleFilter(all),
  random: simpleFilter((value, context) => {
    const length = lengthOf(value);
    if (length === 0) return undefinedValue(context, 'No random item, sequence was empty.');
    return context.lookup.item(value, Math.floor(context.random() * length));
  }),
  reverse: simpleFilter(reverse),
  slice: defineFilter(
    ['value', 'slices', 'fill_with'],
    [null],
    (context, value = null, count = null, fill = null) =>
      new Lazy(slices(value, count, fill, context)),
  ),
  sort: defineFilter(
    ['value', 'reverse', 'case_sensitive', 'attribute'],
    [false, false, null],
    (context, value = null, reverse = false, caseSensitive = false, attribute = null) => {
      const key = attributesGetter(context, attribute, !isTruthy(caseSensitive));
      return sortValues(all(value, context), { key, reverse: isTruthy(reverse) }, context.meter);
    },
  ),
  sum: defineFilter(
    ['iterable', 'attribute', 'start'],
    [null, 0],
    (context, value = null, attribute = null, start = 0) => sum(context, value, attribute, start),
  ),
};

function withDefault(
  _context: FilterContext,
  value: Value = null,
  fallback: Value = '',
  boolean: Value = false,
): Value {
  if (value instanceof Undefined) return fallback;
  return isTruthy(boolean) && !isTruthy(value) ? fallback : value;
}

/** jinja2's filters for lists and dicts. */
import { tryAttribute } from '../python/attributes.ts';
import { equals, isOrdered } from '../python/compare.ts';
import { isTrue, iterate, lengthOf, toArray } from '../python/iterate.ts';
import { binary } from '../python/operators.ts';
import { Raised, typeError, valueError } from '../python/raise.ts';
import { describe, textRepr, typeName } from '../python/repr.ts';
import { asIndex } from '../python/slice.ts';
import { sorted } from '../python/sort.ts';
import { characters } from '../python/text.ts';
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
import { attributeGetter, attributesGetter, folded } from './attribute-getter.ts';
import {
  type Definitions,
  define,
  type FilterContext,
  items,
  missing,
  simple,
} from './definition.ts';

function all(value: Value, context: FilterContext): Value[] {
  return [...items(value, context)];
}

function* batches(
  value: Value,
  size: Value,
  fill: Value,
  context: FilterContext,
): Generator<Value> {
  let batch: Value[] = [];
  for (const item of items(value, context)) {
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
  if (number === 0) throw new Raised('ZeroDivisionError', 'integer division or modulo by zero');
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
    throw new Raised('FilterArgumentError', 'You can only sort by either "key" or "value"');
  }
  const pairs = Array.from(pairsOf(value), ([k, v]) => new Tuple([k, v]));
  const place = by === 'key' ? 0 : 1;
  const key = (pair: Value): Value => {
    const item = pair instanceof Tuple ? (pair.items[place] ?? null) : null;
    return isTrue(caseSensitive) ? item : folded(item);
  };
  return sorted(pairs, { key, reverse: isTrue(reverse) }, context.meter);
}

/** @throws Raised AttributeError for what has no `items()` */
function pairsOf(value: Value): Iterable<readonly [Value, Value]> {
  if (value instanceof Dict) return value.entries();
  if (value instanceof Undefined) throw value.error();
  throw new Raised('AttributeError', `'${typeName(value)}' object has no attribute 'items'`);
}

function last(value: Value, context: FilterContext): Value {
  const reversedItems = reversed(value);
  const next = reversedItems.next();
  return next.done === true ? missing(context, 'No last item, sequence was empty.') : next.value;
}

/** `reversed(value)`. @throws Raised TypeError for what has no order */
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
  if (typeof value === 'string') return characters(value).reverse().join('');
  if (value instanceof Markup) return new Markup(characters(value.text).reverse().join(''));
  if (hasOrder(value)) {
    context.meter.step(lengthOf(value));
    return new Lazy(reversed(value), Array.isArray(value) ? 'list_reverseiterator' : 'reversed');
  }
  try {
    return all(value, context).reverse();
  } catch (error) {
    if (!(error instanceof Raised) || error.kind !== 'TypeError') throw error;
    throw new Raised('FilterArgumentError', 'argument must be iterable');
  }
}

/** `min` and `max` of Python. @throws Raised ValueError for nothing, TypeError */
export function extreme(value: Value, isMax: boolean, context: FilterContext): Value {
  let best: Value | undefined;
  for (const item of items(value, context)) {
    if (best === undefined || isOrdered(item, isMax ? '>' : '<', best)) best = item;
  }
  if (best === undefined) throw valueError(`${isMax ? 'max' : 'min'}() arg is an empty sequence`);
  return best;
}

function groupBy(context: FilterContext, value: Value, args: readonly Value[]): Value {
  const [attribute = null, fallback = null, caseSensitive = false] = args;
  const ignoreCase = !isTrue(caseSensitive);
  const get = attributeGetter(context, attribute, { fallback, ignoreCase });
  const shown = attributeGetter(context, attribute, { fallback });
  const groups: { key: Value; list: Value[] }[] = [];
  for (const item of sorted(all(value, context), { key: get }, context.meter)) {
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
  for (const item of items(value, context)) total = binary(total, '+', get(item), context.meter);
  return total;
}

function* dictItems(value: Value): Generator<Value> {
  if (value instanceof Undefined) return;
  if (!(value instanceof Dict)) throw typeError('Can only get item pairs from a mapping.');
  for (const [k, v] of value.entries()) yield new Tuple([k, v]);
}

/** The filters by name. */
export const sequenceFilters: Definitions = {
  attr: define(['obj', 'name'], [], (context, object = null, name = null) => {
    if (!isText(name)) throw typeError('attribute name must be string');
    if (object instanceof Undefined) throw object.error();
    const found = tryAttribute(object, textOf(name), context);
    return found === undefined
      ? missing(context, `${textRepr(describe(object))} has no attribute ${textRepr(textOf(name))}`)
      : found;
  }),
  batch: define(
    ['value', 'linecount', 'fill_with'],
    [null],
    (context, value = null, count = null, fill = null) =>
      new Lazy(batches(value, count, fill, context)),
  ),
  count: simple(lengthOf),
  d: define(['value', 'default_value', 'boolean'], ['', false], withDefault),
  default: define(['value', 'default_value', 'boolean'], ['', false], withDefault),
  dictsort: define(
    ['value', 'case_sensitive', 'by', 'reverse'],
    [false, 'key', false],
    (context, value = null, ...args) => dictSort(context, value, args),
  ),
  first: simple((value, context) => {
    const next = iterate(value).next();
    return next.done === true ? missing(context, 'No first item, sequence was empty.') : next.value;
  }),
  groupby: define(
    ['value', 'attribute', 'default', 'case_sensitive'],
    [null, false],
    (context, value = null, ...args) => groupBy(context, value, args),
  ),
  items: simple((value) => new Lazy(dictItems(value))),
  last: simple(last),
  length: simple(lengthOf),
  list: simple(all),
  random: simple((value, context) => {
    const length = lengthOf(value);
    if (length === 0) return missing(context, 'No random item, sequence was empty.');
    return context.lookup.item(value, Math.floor(context.random() * length));
  }),
  reverse: simple(reverse),
  slice: define(
    ['value', 'slices', 'fill_with'],
    [null],
    (context, value = null, count = null, fill = null) =>
      new Lazy(slices(value, count, fill, context)),
  ),
  sort: define(
    ['value', 'reverse', 'case_sensitive', 'attribute'],
    [false, false, null],
    (context, value = null, reverse = false, caseSensitive = false, attribute = null) => {
      const key = attributesGetter(context, attribute, !isTrue(caseSensitive));
      return sorted(all(value, context), { key, reverse: isTrue(reverse) }, context.meter);
    },
  ),
  sum: define(
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
  return isTrue(boolean) && !isTrue(value) ? fallback : value;
}

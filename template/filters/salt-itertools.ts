/** Salt's filters for Python's itertools [salt/utils/jinja.py]. */

import { typeError } from '../python/exceptions.ts';
import { typeName } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { isInteger, Lazy, Tuple, type Value } from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  variadicFilter,
} from './definition.ts';

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

/** Implements `zip`. The iterators are read only as far as the result is read. */
function* zip(iterators: readonly Iterator<Value>[]): Generator<Value> {
  while (iterators.length > 0) {
    const items: Value[] = [];
    for (const iterator of iterators) {
      const next = iterator.next();
      if (next.done === true) return;
      items.push(next.value);
    }
    yield new Tuple(items);
  }
}

function* zipLongest(iterators: readonly Iterator<Value>[], fill: Value): Generator<Value> {
  const open = new Set(iterators);
  const nextOf = (iterator: Iterator<Value>): Value => {
    if (!open.has(iterator)) return fill;
    const next = iterator.next();
    if (next.done !== true) return next.value;
    open.delete(iterator);
    return fill;
  };
  while (open.size > 0) {
    const items = iterators.map(nextOf);
    if (open.size > 0) yield new Tuple(items);
  }
}

function iterators(args: readonly Value[], context: FilterContext): Iterator<Value>[] {
  return args.map((value) => iterateItems(value, context));
}

function pools(args: readonly Value[], context: FilterContext): Value[][] {
  return args.map((value) => [...iterateItems(value, context)]);
}

function* compress(items: Iterator<Value>, marks: Iterator<Value>): Generator<Value> {
  for (const item of { [Symbol.iterator]: () => items }) {
    const mark = marks.next();
    if (mark.done === true) return;
    if (isTruthy(mark.value)) yield item;
  }
}

/**
 * Converts an argument to an integer, or returns the fallback for `None`.
 * @throws PythonException TypeError
 */
export function sizeOf(value: Value, fallback: number): number {
  if (value === null) return fallback;
  if (!isInteger(value))
    throw typeError(`'${typeName(value)}' object cannot be interpreted as an integer`);
  return Number(value);
}

/** Salt's itertools filters by name. */
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
      new Lazy(
        compress(iterateItems(value, context), iterateItems(selectors, context)),
        'compress',
      ),
  ),
  permutations: defineFilter(['iterable', 'r'], [null], (context, value = null, size = null) => {
    const pool = [...iterateItems(value, context)];
    return new Lazy(tuples(permutations(pool, sizeOf(size, pool.length), context)), 'permutations');
  }),
  product: variadicFilter(
    (context, { positional }) =>
      new Lazy(tuples(product(pools(positional, context), context)), 'product'),
  ),
  zip: variadicFilter(
    (context, { positional }) => new Lazy(zip(iterators(positional, context)), 'zip'),
  ),
  zip_longest: variadicFilter(
    (context, { positional, named }) =>
      new Lazy(
        zipLongest(iterators(positional, context), named.get('fillvalue') ?? null),
        'zip_longest',
      ),
  ),
};

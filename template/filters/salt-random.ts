/** Salt's filters that select random items of a list [salt/utils/data.py]. */

import { hash } from 'node:crypto';
import {
  PythonException,
  typeError,
  UnsupportedFeature,
  valueError,
} from '../python/exceptions.ts';
import { Random } from '../python/random.ts';
import { typeName } from '../python/repr.ts';
import { asIndex } from '../python/subscripts.ts';
import { Dict, isText, PySet, Tuple, textOf, type Value } from '../python/values.ts';
import { defineFilter, type FilterContext, type FilterDefinitions } from './definition.ts';

/**
 * Selects `size` items. As in Salt, the seed determines the selection and its order.
 * @throws UnsupportedFeature without a seed, because the result would differ at each rendering
 */
function sample(name: string, items: readonly Value[], size: number, seed: Value): Value {
  if (seed === null) {
    throw new UnsupportedFeature(
      `the filter '${name}' is not supported without seed=: its result would differ at each rendering`,
    );
  }
  if (!isText(seed)) throw typeError('object supporting the buffer API required');
  if (size < 0 || size > items.length) {
    throw valueError('Sample larger than population or is negative');
  }
  const random = new Random(hash('sha512', textOf(seed)));
  return random.sample(items.length, size).map((index) => items[index] ?? null);
}

function itemsOf(value: Value, { meter }: FilterContext): readonly Value[] {
  const items = sequenceItems(value);
  meter.step(items.length);
  return items;
}

function sequenceItems(value: Value): readonly Value[] {
  if (isText(value)) return [...textOf(value)];
  if (value instanceof Tuple) return value.items;
  if (Array.isArray(value)) return value;
  const advice = 'For dicts or sets, use sorted(d).';
  if (value instanceof Dict || value instanceof PySet) {
    throw typeError(`Population must be a sequence.  ${advice}`);
  }
  throw new PythonException('TypeError', `object of type '${typeName(value)}' has no len()`);
}

/** Salt's random filters by name. */
export const randomFilters: FilterDefinitions = {
  random_sample: defineFilter(
    ['value', 'size', 'seed'],
    [null],
    (context, value = null, size = null, seed = null) =>
      sample('random_sample', itemsOf(value, context), asIndex(size), seed),
  ),
  random_shuffle: defineFilter(['value', 'seed'], [null], (context, value = null, seed = null) => {
    const items = itemsOf(value, context);
    return sample('random_shuffle', items, items.length, seed);
  }),
};

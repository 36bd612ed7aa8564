/** Salt's filters that use lists as sets [salt/utils/jinja.py]. */

import { contains, equals } from '../python/comparison.ts';
import { binaryOperation } from '../python/operators.ts';
import { tryLength } from '../python/sequences.ts';
import { isHashable } from '../python/subscripts.ts';
import { isPyObject, PySet, Tuple, type Value } from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
} from './definition.ts';

/**
 * Implements `isinstance(value, Hashable)`. It depends only on the type of the value, not on the
 * items in it.
 */
export function hasHash(value: Value): boolean {
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

/**
 * Defines a set operation. As in Salt, hashable values are combined as sets, and other values as
 * lists.
 */
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
    const isFromLeft = !keep(false, true);
    const all = isFromLeft ? [...iterateItems(left, context)] : sumOf(left, right, context);
    context.meter.step(all.length * (1 + (tryLength(right) ?? 0)));
    // The iteration of a generator has consumed it, so that its items are no longer in it.
    return distinct(
      all.filter((item) => keep(isFromLeft || contains(left, item), contains(right, item))),
      context,
    );
  });
}

/**
 * Returns `left + right` as a list.
 * @throws PythonException TypeError
 */
function sumOf(left: Value, right: Value, context: FilterContext): readonly Value[] {
  return asList(binaryOperation(left, '+', right, context.meter));
}

/** Returns the items of a list or tuple. For other values, returns an empty list. */
function asList(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : [];
}

/** Salt's set filters by name. */
export const setFilters: FilterDefinitions = {
  difference: setOperation((inLeft, inRight) => inLeft && !inRight),
  intersect: setOperation((inLeft, inRight) => inLeft && inRight),
  symmetric_difference: setOperation((inLeft, inRight) => inLeft !== inRight),
  union: setOperation(() => true, true),
  unique: simpleFilter(unique),
};

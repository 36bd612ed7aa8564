/** Salt's filters that take lists as sets [salt/utils/jinja.py]. */
import { contains, equals } from '../python/compare.ts';
import { lengthOf } from '../python/iterate.ts';
import { binary } from '../python/operators.ts';
import { isHashable } from '../python/slice.ts';
import { isPyObject, PySet, Tuple, type Value } from '../python/values.ts';
import {
  type Definition,
  type Definitions,
  define,
  type FilterContext,
  items,
  simple,
} from './definition.ts';

/** Salt's `isinstance(value, Hashable)`, which looks at the type only. */
export function hasHash(value: Value): boolean {
  if (isPyObject(value) && /^dict_(keys|items)$/.test(value.typeName)) return false;
  return value instanceof Tuple || isHashable(value);
}

function unique(values: Value, context: FilterContext): Value {
  if (hasHash(values)) return new PySet(items(values, context));
  return distinct([...items(values, context)], context);
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
): Definition {
  return define(['lst1', 'lst2'], [], (context, left = null, right = null) => {
    if (hasHash(left) && hasHash(right)) {
      const first = new PySet(items(left, context));
      const second = new PySet(items(right, context));
      const both = new PySet([...first.values(), ...second.values()]).values();
      return new PySet(both.filter((item) => keep(first.has(item), second.has(item))));
    }
    if (isUnion) return distinct(sumOf(left, right, context), context);
    const all = keep(false, true) ? sumOf(left, right, context) : [...items(left, context)];
    context.meter.step(all.length * (1 + lengthOf(right)));
    return distinct(
      all.filter((item) => keep(contains(left, item), contains(right, item))),
      context,
    );
  });
}

/** `left + right`, as a list. @throws Raised TypeError */
function sumOf(left: Value, right: Value, context: FilterContext): readonly Value[] {
  return asList(binary(left, '+', right, context.meter));
}

/** The items of a list or tuple; none of anything else. */
export function asList(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : [];
}

/** The filters by name. */
export const setFilters: Definitions = {
  difference: setOperation((inLeft, inRight) => inLeft && !inRight),
  intersect: setOperation((inLeft, inRight) => inLeft && inRight),
  symmetric_difference: setOperation((inLeft, inRight) => inLeft !== inRight),
  union: setOperation(() => true, true),
  unique: simple(unique),
};

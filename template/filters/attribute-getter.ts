/** Attributes that `map`, `sort` and similar filters read. */

import { isText, textOf, Undefined, type Value } from '../python/values.ts';
import type { FilterContext } from './definition.ts';

/** What is done with an attribute. */
export interface GetterOptions {
  /** Given for what is undefined; `None` for none. */
  readonly fallback?: Value;
  /** Whether letters of different case are the same. */
  readonly ignoreCase?: boolean;
}

/** A function from an item to its attribute: a dotted name, an index, or `None` for the item. */
export function attributeGetter(
  context: FilterContext,
  attribute: Value,
  { fallback = null, ignoreCase = false }: GetterOptions = {},
): (item: Value) => Value {
  const parts = attributeParts(attribute);
  return (item) => {
    let value = item;
    for (const part of parts) {
      value = context.lookup.item(value, part);
      if (fallback !== null && value instanceof Undefined) value = fallback;
    }
    return ignoreCase ? lowerCased(value) : value;
  };
}

/** The same for several attributes with commas between them; gives a list. */
export function attributesGetter(
  context: FilterContext,
  attribute: Value,
  ignoreCase: boolean,
): (item: Value) => Value {
  const names = isText(attribute) ? textOf(attribute).split(',') : [attribute];
  const getters = names.map((name) => attributeGetter(context, name, { ignoreCase }));
  return (item) => getters.map((get) => get(item));
}

/** Text in lower case; all else as it is. */
export function lowerCased(value: Value): Value {
  return isText(value) ? textOf(value).toLowerCase() : value;
}

function attributeParts(attribute: Value): Value[] {
  if (attribute === null) return [];
  if (!isText(attribute)) return [attribute];
  return textOf(attribute)
    .split('.')
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

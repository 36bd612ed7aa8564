/** Reads attributes for `map`, `sort` and similar filters. */

import { isText, textOf, Undefined, type Value } from '../python/values.ts';
import type { FilterContext } from './definition.ts';

/** Options of an attribute getter. */
export interface GetterOptions {
  /**
   * Value to use instead of an undefined attribute. Default: `None`, with which the attribute stays
   * undefined.
   */
  readonly fallback?: Value;
  /** Whether text is converted to lower case. */
  readonly ignoreCase?: boolean;
}

/**
 * Returns a function that reads an attribute of an item. The attribute is a dotted name, an index,
 * or `None` for the item itself.
 */
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

/**
 * Returns a function that reads several attributes of an item as a list. Their names are separated
 * by commas.
 */
export function attributesGetter(
  context: FilterContext,
  attribute: Value,
  ignoreCase: boolean,
): (item: Value) => Value {
  const names = isText(attribute) ? textOf(attribute).split(',') : [attribute];
  const getters = names.map((name) => attributeGetter(context, name, { ignoreCase }));
  return (item) => getters.map((get) => get(item));
}

/** Converts text to lower case and returns other values unchanged. */
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

/** `map`, `select` and similar filters of jinja2. */

import { PythonException, typeError } from '../python/exceptions.ts';
import { textRepr } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { type Arguments, isText, Lazy, textOf, type Value } from '../python/values.ts';
import { attributeGetter } from './attribute-getter.ts';
import {
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
  variadicFilter,
} from './definition.ts';

function filterError(message: string): PythonException {
  return new PythonException('FilterArgumentError', message);
}

function nameOf(value: Value): string {
  if (isText(value)) return textOf(value);
  throw typeError('the name of a filter or test must be text');
}

/**
 * Returns the function that the filter `map` applies to each item.
 * @throws PythonException FilterArgumentError
 */
function mapper(context: FilterContext, { positional, named }: Arguments): (item: Value) => Value {
  const [name, ...args] = positional;
  const attribute = named.get('attribute');
  if (name === undefined && attribute !== undefined) {
    const surplus = [...named.keys()].find((key) => key !== 'attribute' && key !== 'default');
    if (surplus !== undefined) {
      throw filterError(`Unexpected keyword argument ${textRepr(surplus)}`);
    }
    return attributeGetter(context, attribute, { fallback: named.get('default') ?? null });
  }
  if (name === undefined) throw filterError('map requires a filter argument');
  return (item) => context.filter(nameOf(name), { positional: [item, ...args], named });
}

function* map(context: FilterContext, { positional, named }: Arguments): Generator<Value> {
  const [value = null, ...args] = positional;
  if (!isTruthy(value)) return;
  const change = mapper(context, { positional: args, named });
  for (const item of iterateItems(value, context)) yield change(item);
}

/**
 * Returns the predicate of `select`, `reject` and similar filters.
 * @throws PythonException FilterArgumentError
 */
function question(
  context: FilterContext,
  { positional, named }: Arguments,
  withAttribute: boolean,
): (item: Value) => boolean {
  const [first, ...rest] = positional;
  if (withAttribute && first === undefined) {
    throw filterError('Missing parameter for attribute name');
  }
  const get = withAttribute ? attributeGetter(context, first ?? null) : (item: Value) => item;
  const [name, ...args] = withAttribute ? rest : positional;
  if (name === undefined) return (item) => isTruthy(get(item));
  return (item) =>
    isTruthy(context.test(nameOf(name), { positional: [get(item), ...args], named }));
}

function selection(isWanted: boolean, withAttribute: boolean): FilterDefinition {
  return variadicFilter(
    (context, args) => new Lazy(select(context, args, isWanted, withAttribute)),
  );
}

function* select(
  context: FilterContext,
  { positional, named }: Arguments,
  isWanted: boolean,
  withAttribute: boolean,
): Generator<Value> {
  const [value = null, ...args] = positional;
  if (!isTruthy(value)) return;
  const ask = question(context, { positional: args, named }, withAttribute);
  for (const item of iterateItems(value, context)) if (ask(item) === isWanted) yield item;
}

/** jinja2's selection filters by name. */
export const selectFilters: FilterDefinitions = {
  map: variadicFilter((context, args) => new Lazy(map(context, args))),
  reject: selection(false, false),
  rejectattr: selection(false, true),
  select: selection(true, false),
  selectattr: selection(true, true),
};

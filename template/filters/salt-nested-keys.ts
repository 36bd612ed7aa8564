/** Salt's filters that change a value at a path of keys [salt/utils/dictupdate.py]. */

import { PythonException } from '../python/exceptions.ts';
import { typeName } from '../python/repr.ts';
import { Dict, isText, textOf, type Value } from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
} from './definition.ts';

/** Returns the dict that contains the last key of a path. Creates missing dicts on the path. */
function parentOf(dict: Value, keys: readonly string[]): Dict {
  let parent = dict;
  for (const key of keys) {
    if (!(parent instanceof Dict)) break;
    if (!(parent.get(key) instanceof Dict)) parent.set(key, new Dict());
    parent = parent.get(key) ?? null;
  }
  if (parent instanceof Dict) return parent;
  throw invocation(`The path leads through a ${typeName(parent)}, which has no keys.`);
}

function invocation(message: string): PythonException {
  return new PythonException('SaltInvocationError', message);
}

/** Defines a filter that changes the value at a path of keys and returns the changed dict. */
function nestedKeyFilter(
  change: (parent: Dict, key: string, value: Value, context: FilterContext) => void,
): FilterDefinition {
  return defineFilter(
    ['in_dict', 'keys', 'value', 'delimiter', 'ordered_dict'],
    [':', false],
    (context, dict = null, keys = null, value = null, delimiter = ':') => {
      if (!isText(keys) || !isText(delimiter)) throw invocation('The keys must be a text.');
      const path = textOf(keys).split(textOf(delimiter));
      context.meter.step(path.length);
      const last = path.pop() ?? '';
      change(parentOf(dict, path), last, value, context);
      return dict;
    },
  );
}

/**
 * Returns the list at a key. Creates it if the key does not exist.
 * @param verb - name of the operation in the error message, for example `append`
 */
function listAt(parent: Dict, key: string, verb: string): Value[] {
  const found = parent.get(key) ?? null;
  if (found === null) {
    const list: Value[] = [];
    parent.set(key, list);
    return list;
  }
  if (Array.isArray(found)) return found;
  throw invocation(`The last key contains a <class '${typeName(found)}'>, which cannot ${verb}.`);
}

function update(parent: Dict, key: string, value: Value): void {
  if ((parent.get(key) ?? null) === null) parent.set(key, new Dict());
  const found = parent.get(key) ?? null;
  if (!(found instanceof Dict)) {
    throw invocation(`The last key contains a <class '${typeName(found)}'>, which cannot update.`);
  }
  if (!(value instanceof Dict)) {
    throw invocation(`Cannot update <class 'dict'> with a <class '${typeName(value)}'>.`);
  }
  for (const [name, item] of value.entries()) found.set(name, item);
}

/** Salt's nested key filters by name. */
export const nestedKeyFilters: FilterDefinitions = {
  append_dict_key_value: nestedKeyFilter((parent, key, value) => {
    listAt(parent, key, 'append').push(value);
  }),
  extend_dict_key_value: nestedKeyFilter((parent, key, value, context) => {
    const items = [...iterateItems(value, context)];
    listAt(parent, key, 'extend').push(...items);
  }),
  set_dict_key_value: nestedKeyFilter((parent, key, value) => parent.set(key, value)),
  update_dict_key_value: nestedKeyFilter(update),
};

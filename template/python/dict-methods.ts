/** Methods of `dict`. */

import { PythonException, typeError, valueError } from './exceptions.ts';
import { defineMethod, type Method, type Methods } from './functions.ts';
import { lateItem } from './late.ts';
import type { UsageMeter } from './limits.ts';
import { repr } from './repr.ts';
import { iterate, lengthOf, toArray } from './sequences.ts';
import { keyError } from './subscripts.ts';
import { type Arguments, Dict, type PyObject, Tuple, type Value } from './values.ts';

/** Result of `keys()`, `values()` and `items()`: a live view of the dict. */
class DictView implements PyObject {
  readonly typeName: string;
  readonly #dict: Dict;
  readonly #pick: (key: Value, value: Value) => Value;

  constructor(typeName: string, dict: Dict, pick: (key: Value, value: Value) => Value) {
    this.typeName = typeName;
    this.#dict = dict;
    this.#pick = pick;
  }

  repr(): string {
    return `${this.typeName}(${repr([...this.#all()])})`;
  }

  size(): number {
    return this.#dict.size;
  }

  iterate(): Iterator<Value> {
    return this.#all();
  }

  *#all(): Generator<Value> {
    const { size } = this.#dict;
    for (const [key, value] of this.#dict.entries()) {
      if (this.#dict.size !== size) {
        throw new PythonException('RuntimeError', 'dictionary changed size during iteration');
      }
      yield this.#pick(key, value);
    }
  }
}

/**
 * Updates a dict like `dict.update(source, **named)`.
 * @throws PythonException TypeError, ValueError
 */
export function updateDict(dict: Dict, args: Arguments, meter: UsageMeter): null {
  const [source, ...more] = args.positional;
  if (more.length > 0) {
    throw typeError(`update expected at most 1 argument, got ${args.positional.length}`);
  }
  if (source instanceof Dict) {
    meter.step(source.size);
    for (const [key, value] of [...source.entries()]) dict.set(key, value);
  } else if (source !== undefined) {
    updateFromPairs(dict, source, meter);
  }
  for (const [key, value] of args.named) dict.set(key, value);
  return null;
}

function updateFromPairs(dict: Dict, pairs: Value, meter: UsageMeter): void {
  const iterator = iterate(pairs);
  let index = 0;
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    meter.step();
    const [key, value, ...rest] = pairItems(next.value, index);
    if (key === undefined || value === undefined || rest.length > 0) {
      throw valueError(
        `dictionary update sequence element #${index} has length ${lengthOf(next.value)}; 2 is required`,
      );
    }
    dict.set(key, value);
    index += 1;
  }
}

function pairItems(pair: Value, index: number): Value[] {
  try {
    return toArray(pair, () => {});
  } catch (error) {
    if (!(error instanceof PythonException) || error.kind !== 'TypeError') throw error;
    throw typeError(`cannot convert dictionary update sequence element #${index} to a sequence`);
  }
}

function popKey(dict: Dict, key: Value, fallback: Value | undefined): Value {
  const value = dict.get(key);
  if (value !== undefined) {
    dict.delete(key);
    return value;
  }
  if (fallback === undefined) throw keyError(key);
  return fallback;
}

function popItem(dict: Dict): Value {
  const key = dict.keys().at(-1);
  if (key === undefined) throw new PythonException('KeyError', "'popitem(): dictionary is empty'");
  return new Tuple([key, popKey(dict, key, null)]);
}

/** Methods of `dict`, except those that accept arbitrary arguments. */
export const dictMethods: Methods<Dict> = new Map<string, Method<Dict>>([
  [
    'clear',
    defineMethod([], [], (dict) => {
      dict.clear();
      return null;
    }),
  ],
  [
    'copy',
    defineMethod([], [], (dict, meter) => {
      meter.step(dict.size);
      return new Dict(dict.entries());
    }),
  ],
  [
    'fromkeys',
    defineMethod(['iterable', 'value'], [null], (_dict, meter, keys, value) => {
      const all = toArray(keys ?? null, () => meter.step());
      return new Dict(all.map((key) => [key, value ?? null] as const));
    }),
  ],
  [
    'get',
    defineMethod(['key', 'default'], [null], (dict, _meter, key, fallback) => {
      const late = lateItem(dict, key ?? null);
      if (late !== undefined) return late;
      return dict.get(key ?? null) ?? (dict.has(key ?? null) ? null : (fallback ?? null));
    }),
  ],
  [
    'items',
    defineMethod([], [], (dict) => new DictView('dict_items', dict, (k, v) => new Tuple([k, v]))),
  ],
  ['keys', defineMethod([], [], (dict) => new DictView('dict_keys', dict, (key) => key))],
  ['popitem', defineMethod([], [], popItem)],
  [
    'setdefault',
    defineMethod(['key', 'default'], [null], (dict, meter, key, fallback) => {
      meter.step();
      if (!dict.has(key ?? null)) dict.set(key ?? null, fallback ?? null);
      return dict.get(key ?? null) ?? null;
    }),
  ],
  [
    'values',
    defineMethod([], [], (dict) => new DictView('dict_values', dict, (_key, value) => value)),
  ],
]);

/**
 * Implements `dict.pop`, whose default is optional.
 * @throws PythonException KeyError, TypeError
 */
export function dictPop(dict: Dict, { positional, named }: Arguments): Value {
  const [key, fallback, ...more] = positional;
  if (named.size > 0) throw typeError('dict.pop() takes no keyword arguments');
  if (key === undefined || more.length > 0) {
    throw typeError(`pop expected 1 to 2 arguments, got ${positional.length}`);
  }
  return popKey(dict, key, fallback);
}

/** Implements `dict(…)`. */
export function makeDict(args: Arguments, meter: UsageMeter): Dict {
  if (args.positional.length > 1) {
    throw typeError(`dict expected at most 1 argument, got ${args.positional.length}`);
  }
  const dict = new Dict();
  updateDict(dict, args, meter);
  return dict;
}

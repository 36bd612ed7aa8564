/** `value.name`: methods from closed tables, and what objects of ours offer. */

import { PythonException, typeError, valueError } from './exceptions.ts';
import { type FieldLookup, formatFields } from './format.ts';
import {
  BuiltinFunction,
  boundMethod,
  defineMethod,
  type Method,
  type Methods,
} from './functions.ts';
import type { UsageMeter } from './limits.ts';
import { toInteger } from './numbers.ts';
import { equals, isSubset, sortValues } from './operators.ts';
import { asIndex, isTruthy, iterate, keyError, lengthOf, toArray } from './sequences.ts';
import { stringMethods } from './string-methods.ts';
import {
  type Arguments,
  Bytes,
  Dict,
  Float,
  isInteger,
  isPyObject,
  isText,
  Markup,
  type PyObject,
  PySet,
  Range,
  repr,
  Tuple,
  textOf,
  type Value,
} from './values.ts';

// The methods of `dict`.

/** What `keys()`, `values()` and `items()` give: looks at the dict as it is now. */
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

/** `dict(source, **named)` into a dict that is there. @throws PythonException TypeError, ValueError */
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

/** All of them but those that take any arguments. */
const dictMethods: Methods<Dict> = new Map<string, Method<Dict>>([
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

/** `dict.pop`, whose default may be left out. @throws PythonException KeyError, TypeError */
function dictPop(dict: Dict, { positional, named }: Arguments): Value {
  const [key, fallback, ...more] = positional;
  if (named.size > 0) throw typeError('dict.pop() takes no keyword arguments');
  if (key === undefined || more.length > 0) {
    throw typeError(`pop expected 1 to 2 arguments, got ${positional.length}`);
  }
  return popKey(dict, key, fallback);
}

/** A new dict from what `dict(…)` was given. */
export function makeDict(args: Arguments, meter: UsageMeter): Dict {
  if (args.positional.length > 1) {
    throw typeError(`dict expected at most 1 argument, got ${args.positional.length}`);
  }
  const dict = new Dict();
  updateDict(dict, args, meter);
  return dict;
}

// The methods of `list` and `tuple`.

function find(items: readonly Value[], wanted: Value, start: Value, stop: Value): number {
  const clip = (value: Value, fallback: number): number => {
    const at = value === null ? fallback : asIndex(value);
    return Math.max(0, at < 0 ? at + items.length : at);
  };
  const end = Math.min(items.length, clip(stop, items.length));
  for (let index = clip(start, 0); index < end; index += 1) {
    if (equals(items[index] ?? null, wanted)) return index;
  }
  return -1;
}

function sortInPlace(list: Value[], key: Value, reverse: Value, meter: UsageMeter): null {
  const call = isPyObject(key) ? key.call?.bind(key) : undefined;
  if (key !== null && call === undefined) throw typeError('the key is not callable');
  const items = sortValues(
    list,
    {
      reverse: isTruthy(reverse),
      ...(call === undefined
        ? {}
        : { key: (item) => call({ positional: [item], named: new Map() }) }),
    },
    meter,
  );
  list.splice(0, list.length, ...items);
  return null;
}

function popAt(list: Value[], at: Value): Value {
  const index = asIndex(at);
  if (list.length === 0) throw new PythonException('IndexError', 'pop from empty list');
  const [item] = list.splice(
    index < 0 ? Math.max(index, -list.length - 1) : index,
    inside(list, index) ? 1 : 0,
  );
  if (item === undefined) throw new PythonException('IndexError', 'pop index out of range');
  return item;
}

function inside(list: readonly Value[], index: number): boolean {
  return index >= -list.length && index < list.length;
}

const countMethod = <Self>(itemsOf: (self: Self) => readonly Value[]): Method<Self> =>
  defineMethod(['value'], [], (self, meter, wanted) => {
    const items = itemsOf(self);
    meter.step(items.length);
    return items.filter((item) => equals(item, wanted ?? null)).length;
  });

const indexMethod = <Self>(itemsOf: (self: Self) => readonly Value[], type: string): Method<Self> =>
  defineMethod(['value', 'start', 'stop'], [null, null], (self, meter, wanted, start, stop) => {
    const items = itemsOf(self);
    meter.step(items.length);
    const found = find(items, wanted ?? null, start ?? null, stop ?? null);
    if (found < 0) throw valueError(`${type}.index(x): x not in ${type}`);
    return found;
  });

/** The methods of `list`. */
const listMethods: Methods<Value[]> = new Map<string, Method<Value[]>>([
  [
    'append',
    defineMethod(['object'], [], (list, meter, item) => {
      meter.step();
      list.push(item ?? null);
      return null;
    }),
  ],
  [
    'clear',
    defineMethod([], [], (list) => {
      list.length = 0;
      return null;
    }),
  ],
  [
    'copy',
    defineMethod([], [], (list, meter) => {
      meter.step(list.length);
      return [...list];
    }),
  ],
  ['count', countMethod((list) => list)],
  [
    'extend',
    defineMethod(['iterable'], [], (list, meter, items) => {
      for (const item of toArray(items ?? null, () => meter.step())) list.push(item);
      return null;
    }),
  ],
  ['index', indexMethod((list) => list, 'list')],
  [
    'insert',
    defineMethod(['index', 'object'], [], (list, meter, index, item) => {
      meter.step();
      const at = asIndex(index ?? null);
      list.splice(at < 0 ? Math.max(0, at + list.length) : at, 0, item ?? null);
      return null;
    }),
  ],
  ['pop', defineMethod(['index'], [-1], (list, _meter, index) => popAt(list, index ?? -1))],
  [
    'remove',
    defineMethod(['value'], [], (list, meter, value) => {
      meter.step(list.length);
      const found = find(list, value ?? null, null, null);
      if (found < 0) throw valueError('list.remove(x): x not in list');
      list.splice(found, 1);
      return null;
    }),
  ],
  [
    'reverse',
    defineMethod([], [], (list, meter) => {
      meter.step(list.length);
      list.reverse();
      return null;
    }),
  ],
  [
    'sort',
    defineMethod(['key', 'reverse'], [null, false], (list, meter, key, reverse) =>
      sortInPlace(list, key ?? null, reverse ?? false, meter),
    ),
  ],
]);

/** The methods of `tuple`. */
const tupleMethods: Methods<Tuple> = new Map<string, Method<Tuple>>([
  ['count', countMethod(({ items }) => items)],
  ['index', indexMethod(({ items }) => items, 'tuple')],
]);

// The methods of `range`.

const rangeMethods: Methods<Range> = new Map([
  [
    'count',
    defineMethod<Range>(['value'], [], (range, meter, wanted) => {
      return placeOf(range, wanted ?? null, meter) < 0 ? 0 : 1;
    }),
  ],
  [
    'index',
    defineMethod<Range>(['value'], [], (range, meter, wanted = null) => {
      const place = placeOf(range, wanted, meter);
      if (place >= 0) return place;
      throw valueError(
        isInteger(wanted)
          ? `${repr(wanted)} is not in range`
          : 'sequence.index(x): x not in sequence',
      );
    }),
  ],
]);

/** -1: it is not there. */
function placeOf(range: Range, wanted: Value, meter: UsageMeter): number {
  return toArray(range, () => meter.step()).findIndex((number) => equals(number, wanted));
}

// The methods of `set`.

function asSet(value: Value | undefined, meter: UsageMeter): PySet {
  return value instanceof PySet ? value : new PySet(toArray(value ?? null, () => meter.step()));
}

function combine(run: (left: PySet, right: PySet) => Value[]): Method<PySet> {
  return defineMethod(['other'], [], (set, meter, other) => {
    meter.step(set.size);
    return new PySet(run(set, asSet(other, meter)));
  });
}

function change(run: (set: PySet, member: Value) => void): Method<PySet> {
  return defineMethod(['element'], [], (set, meter, member) => {
    meter.step();
    run(set, member ?? null);
    return null;
  });
}

function compare(run: (left: PySet, right: PySet) => boolean): Method<PySet> {
  return defineMethod(['other'], [], (set, meter, other) => run(set, asSet(other, meter)));
}

/** Those that templates can reach. */
const setMethods: Methods<PySet> = new Map<string, Method<PySet>>([
  ['add', change((set, member) => set.add(member))],
  ['discard', change((set, member) => void set.delete(member))],
  [
    'remove',
    change((set, member) => {
      if (!set.delete(member)) throw keyError(member);
    }),
  ],
  [
    'clear',
    defineMethod([], [], (set) => {
      set.clear();
      return null;
    }),
  ],
  ['copy', defineMethod([], [], (set) => new PySet(set.values()))],
  [
    'pop',
    defineMethod([], [], (set) => {
      const [member] = set.values();
      if (member === undefined) throw new PythonException('KeyError', "'pop from an empty set'");
      set.delete(member);
      return member;
    }),
  ],
  [
    'update',
    defineMethod(['other'], [], (set, meter, other) => {
      for (const member of asSet(other, meter).values()) set.add(member);
      return null;
    }),
  ],
  ['union', combine((left, right) => [...left.values(), ...right.values()])],
  ['intersection', combine((left, right) => left.values().filter((m) => right.has(m)))],
  ['difference', combine((left, right) => left.values().filter((m) => !right.has(m)))],
  [
    'symmetric_difference',
    combine((left, right) => [
      ...left.values().filter((m) => !right.has(m)),
      ...right.values().filter((m) => !left.has(m)),
    ]),
  ],
  ['issubset', compare(isSubset)],
  ['issuperset', compare((left, right) => isSubset(right, left))],
  ['isdisjoint', compare((left, right) => !left.values().some((m) => right.has(m)))],
]);

/** What looking up an attribute needs. */
export interface AttributeContext {
  readonly meter: UsageMeter;
  readonly lookup: FieldLookup;
}

/** The attribute, or undefined where there is none of that name. */
export function tryAttribute(
  value: Value,
  name: string,
  context: AttributeContext,
): Value | undefined {
  const { meter } = context;
  // protection: javascript-in-templates
  if (isText(value)) return textAttribute(value, name, context);
  if (value instanceof Dict) return dictAttribute(value, name, meter);
  if (Array.isArray(value)) return boundMethod(listMethods, name, value, meter);
  if (value instanceof Tuple) {
    const field = value.fields.indexOf(name);
    return field < 0 ? boundMethod(tupleMethods, name, value, meter) : value.items[field];
  }
  if (value instanceof PySet) return boundMethod(setMethods, name, value, meter);
  if (value instanceof Range) return boundMethod(rangeMethods, name, value, meter);
  if (value instanceof Bytes) return boundMethod(bytesMethods, name, value, meter);
  if (value instanceof Float) return boundMethod(floatMethods, name, value, meter);
  if (isInteger(value)) return boundMethod(integerMethods, name, value, meter);
  return isPyObject(value) ? value.attribute?.(name) : undefined;
}

function dictAttribute(dict: Dict, name: string, meter: UsageMeter): Value | undefined {
  if (name === 'update') return new BuiltinFunction(name, (args) => updateDict(dict, args, meter));
  if (name === 'pop') return new BuiltinFunction(name, (args) => dictPop(dict, args));
  return boundMethod(dictMethods, name, dict, meter);
}

function textAttribute(
  value: string | Markup,
  name: string,
  context: AttributeContext,
): Value | undefined {
  const isMarked = value instanceof Markup;
  const text = textOf(value);
  if (name === 'format')
    return new BuiltinFunction(name, (args) => format(text, args, isMarked, context));
  if (name === 'format_map') {
    return new BuiltinFunction(name, (args) => format(text, mapArguments(args), isMarked, context));
  }
  const found = boundMethod(stringMethods, name, text, context.meter);
  if (found === undefined || !isMarked) return found;
  return new BuiltinFunction(name, (args) => asMarkup(found.call(args)));
}

/** What a method of markup gives is markup too. */
function asMarkup(value: Value): Value {
  if (typeof value === 'string') return new Markup(value);
  return Array.isArray(value) ? value.map(asMarkup) : value;
}

function format(
  text: string,
  args: Arguments,
  isMarked: boolean,
  { meter, lookup }: AttributeContext,
): Value {
  const formatted = formatFields(text, { args, lookup, meter, isMarked });
  return isMarked ? new Markup(formatted) : formatted;
}

/** @throws PythonException TypeError */
function mapArguments({ positional, named }: Arguments): Arguments {
  if (named.size > 0) throw typeError('format_map() takes no keyword arguments');
  const [mapping] = positional;
  if (!(mapping instanceof Dict) || positional.length > 1) {
    throw typeError(`format_map() takes exactly one argument (${positional.length} given)`);
  }
  const entries = Array.from(
    mapping.entries(),
    ([k, v]) => [typeof k === 'string' ? k : '', v] as const,
  );
  return { positional: [], named: new Map(entries) };
}

const bytesMethods: Methods<Bytes> = new Map([
  [
    'decode',
    defineMethod<Bytes>(['encoding', 'errors'], ['utf-8', 'strict'], ({ bytes }, meter) => {
      meter.text(bytes.length);
      try {
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      } catch (cause) {
        throw new PythonException('UnicodeDecodeError', "'utf-8' codec can't decode the bytes", {
          cause,
        });
      }
    }),
  ],
  ['hex', defineMethod<Bytes>([], [], ({ bytes }) => Buffer.from(bytes).toString('hex'))],
]);

const floatMethods: Methods<Float> = new Map([
  ['is_integer', defineMethod<Float>([], [], ({ value }) => Number.isInteger(value))],
]);

const integerMethods: Methods<number | bigint | boolean> = new Map([
  [
    'bit_length',
    defineMethod<number | bigint | boolean>([], [], (value) => {
      const integer = BigInt(toInteger(value));
      return integer === 0n ? 0 : (integer < 0n ? -integer : integer).toString(2).length;
    }),
  ],
]);

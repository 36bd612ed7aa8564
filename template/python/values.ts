/**
 * Python values. `None` is `null`; `bool`, `str` and `list` are JavaScript values. An `int` is a
 * `number` while that is exact, otherwise a `bigint`. All other types have a class in this file.
 */

import { rawNumber } from '#runtime/json.ts';
import { PythonException, typeError } from './exceptions.ts';

/** Any value in a template. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Value[]
  | Float
  | Markup
  | Bytes
  | Tuple
  | Dict
  | PySet
  | Range
  | Lazy
  | Undefined
  | PyObject;

/** Arguments of a call. */
export interface Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

/** An object of any other type, such as a function, macro, loop, module or dict view. */
export interface PyObject {
  /** Result of `type(x).__name__`. */
  readonly typeName: string;
  /** Module name with a trailing dot. Absent for built-in types. */
  readonly module?: string;
  repr(): string;
  str?(): string;
  attribute?(name: string): Value | undefined;
  item?(key: Value): Value | undefined;
  /**
   * Implements the operator `in`. If absent, `in` compares the member with each item of `iterate`.
   */
  contains?(member: Value): boolean;
  call?(args: Arguments): Value;
  iterate?(): Iterator<Value>;
  size?(): number;
}

/** A `float`. It needs a class, because 2.0 and 2 are printed differently. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  /**
   * Returns the number in this object. JavaScript calls this method when the object occurs in
   * arithmetic or in a comparison with `<` or `>`.
   */
  valueOf(): number {
    return this.value;
  }

  /**
   * Returns the float as text. A float with an integer value gets the ending `.0`, for example
   * `1.0`.
   */
  toString(): string {
    if (!Number.isSafeInteger(this.value)) return String(this.value);
    return Object.is(this.value, -0) ? '-0.0' : `${this.value}.0`;
  }

  /**
   * Returns the float for JSON. A float with an integer value gets the ending `.0`, so that JSON
   * parsers read it as a float.
   */
  toJSON(): unknown {
    return Number.isSafeInteger(this.value) ? rawNumber(this.toString()) : this.value;
  }
}

/** Text marked as safe HTML: the result of `|json`, `|yaml` and `|escape`. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A `bytes` value. */
export class Bytes {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A `tuple` value. */
export class Tuple {
  readonly items: readonly Value[];
  /** Attribute names of the items. Set only for the results of `groupby`, which have two items. */
  readonly fields: readonly string[];

  constructor(items: readonly Value[], fields: readonly string[] = []) {
    this.items = items;
    this.fields = fields;
  }
}

/**
 * Key of a value for look-ups. Keys are equal if the values are equal in Python, such as 1, 1.0 and
 * True.
 */
export type HashKey = string | number | bigint | null | object;

/**
 * Returns the look-up key of a value.
 * @throws PythonException TypeError for unhashable values
 */
export function hashKey(value: Value): HashKey {
  switch (typeof value) {
    case 'string':
      return value.startsWith('\0') ? `\0s${value}` : value;
    case 'boolean':
      return value ? 1 : 0;
    case 'number':
    case 'bigint':
      return value;
  }
  if (value === null) return null;
  if (value instanceof Float) return floatKey(value.value);
  if (value instanceof Markup) return hashKey(value.text);
  if (value instanceof Bytes) return `\0b${Buffer.from(value.bytes).toString('latin1')}`;
  if (value instanceof Tuple) return tupleKey(value);
  if (value instanceof Undefined && value.isStrict) throw value.error();
  if (Array.isArray(value)) throw typeError("unhashable type: 'list'");
  if (value instanceof Dict) throw typeError("unhashable type: 'dict'");
  if (value instanceof PySet) throw typeError("unhashable type: 'set'");
  if (isPyObject(value) && /^dict_(keys|items)$/.test(value.typeName)) {
    throw typeError(`unhashable type: '${value.typeName}'`);
  }
  return value;
}

function floatKey(value: number): HashKey {
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return BigInt(value);
  return Object.is(value, -0) ? 0 : value;
}

/**
 * Returns the look-up key of a tuple. A tuple with an object in it equals only itself, because
 * objects cannot be compared.
 */
function tupleKey(tuple: Tuple): HashKey {
  let key = '\0t';
  for (const item of tuple.items) {
    const part = hashKey(item);
    if (typeof part === 'object' && part !== null) return tuple;
    const text = `${typeof part}${part}`;
    key += `${text.length}:${text}`;
  }
  return key;
}

/** A `dict` in insertion order. Any hashable value can be a key. */
export class Dict {
  readonly #entries = new Map<HashKey, [Value, Value]>();

  constructor(entries: Iterable<readonly [Value, Value]> = []) {
    for (const [key, value] of entries) this.set(key, value);
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(hashKey(key))?.[1];
  }

  has(key: Value): boolean {
    return this.#entries.has(hashKey(key));
  }

  /** Sets a value. As in Python, an existing key object is not replaced. */
  set(key: Value, value: Value): void {
    const hash = hashKey(key);
    const known = this.#entries.get(hash);
    if (known === undefined) this.#entries.set(hash, [key, value]);
    else known[1] = value;
  }

  delete(key: Value): boolean {
    return this.#entries.delete(hashKey(key));
  }

  clear(): void {
    this.#entries.clear();
  }

  entries(): Iterator<readonly [Value, Value]> & Iterable<readonly [Value, Value]> {
    return this.#entries.values();
  }

  keys(): Value[] {
    return Array.from(this.#entries.values(), ([key]) => key);
  }

  values(): Value[] {
    return Array.from(this.#entries.values(), ([, value]) => value);
  }
}

/** A `set` in insertion order. In Python the order is arbitrary. */
export class PySet {
  readonly #members = new Map<HashKey, Value>();

  constructor(members: Iterable<Value> = []) {
    for (const member of members) this.add(member);
  }

  get size(): number {
    return this.#members.size;
  }

  has(member: Value): boolean {
    return this.#members.has(hashKey(member));
  }

  add(member: Value): void {
    const key = hashKey(member);
    if (!this.#members.has(key)) this.#members.set(key, member);
  }

  delete(member: Value): boolean {
    return this.#members.delete(hashKey(member));
  }

  clear(): void {
    this.#members.clear();
  }

  values(): Value[] {
    return [...this.#members.values()];
  }
}

/** A `range` value. */
export class Range {
  readonly start: number;
  readonly stop: number;
  readonly step: number;

  constructor(start: number, stop: number, step: number) {
    this.start = start;
    this.stop = stop;
    this.step = step;
  }

  get length(): number {
    return Math.max(0, Math.ceil((this.stop - this.start) / this.step));
  }
}

/** A generator or another iterator, which can be iterated only once. */
export class Lazy {
  readonly iterator: Iterator<Value>;
  /** Result of `type(x).__name__`, for example `generator`. */
  readonly typeName: string;

  constructor(iterator: Iterator<Value>, typeName = 'generator') {
    this.iterator = iterator;
    this.typeName = typeName;
  }
}

/** Value of a name, key or attribute that does not exist. */
export class Undefined {
  readonly message: string;
  /**
   * Whether every use of the value fails, except `is defined` and `|default`. This is Salt's
   * default.
   */
  readonly isStrict: boolean;
  readonly #kind: string;

  constructor(message: string, isStrict: boolean, kind = 'UndefinedError') {
    this.message = message;
    this.isStrict = isStrict;
    this.#kind = kind;
  }

  error(): PythonException {
    return new PythonException(this.#kind, this.message);
  }
}

/** Whether a value is text, with or without markup. */
export function isText(value: Value): value is string | Markup {
  return typeof value === 'string' || value instanceof Markup;
}

/** Returns the characters of a text. */
export function textOf(value: string | Markup): string {
  return typeof value === 'string' ? value : value.text;
}

/** Whether a value is an `int`. As in Python, a `bool` is one. */
export function isInteger(value: Value): value is number | bigint | boolean {
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
}

/** Whether a value is a {@link PyObject}: an object of a type that another file defines. */
export function isPyObject(value: Value): value is PyObject {
  return typeof value === 'object' && value !== null && 'repr' in value;
}

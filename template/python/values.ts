/**
 * Python's values. `None` is `null`, `bool`, `str` and `list` are JavaScript's own; an `int` is a
 * `number` while that is exact and a `bigint` beyond; all else has a class here.
 */

import { PythonException, typeError } from './exceptions.ts';
import { RecursionGuard } from './limits.ts';
import { floatRepr, integerText, normalizeInteger } from './numbers.ts';

/** Any value of a template. */
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

/** What a call passes on. */
export interface Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

/** Anything else that templates meet: functions, macros, loops, modules, views of a dict. */
export interface PyObject {
  /** As `type(x).__name__` says it. */
  readonly typeName: string;
  /** The module's name and a dot, where the type is not built in. */
  readonly module?: string;
  repr(): string;
  str?(): string;
  attribute?(name: string): Value | undefined;
  item?(key: Value): Value | undefined;
  /** The operator `in`. Default: compares with each item of `iterate`. */
  contains?(member: Value): boolean;
  call?(args: Arguments): Value;
  iterate?(): Iterator<Value>;
  size?(): number;
}

/** A `float`; a class, because 2.0 is not 2 when it is printed. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** Text that is marked as safe HTML: what `|json`, `|yaml` and `|escape` give. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A `bytes`. */
export class Bytes {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A `tuple`. */
export class Tuple {
  readonly items: readonly Value[];
  /** Set for what `groupby` gives: names for the two items. */
  readonly fields: readonly string[];

  constructor(items: readonly Value[], fields: readonly string[] = []) {
    this.items = items;
    this.fields = fields;
  }
}

/** What a key is found by; equal for what is equal in Python: 1, 1.0 and True. */
export type HashKey = string | number | bigint | null | object;

/** @throws PythonException TypeError for what has no hash */
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

/** A tuple that holds an object, which has no value to compare, is found by itself only. */
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

/** A `dict`: keeps the order of insertion, and any hashable value is a key. */
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

  /** A key that is there already stays as it was first written. */
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

/** A `set`. Python's order is arbitrary; here it is that of insertion. */
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

/** A `range`. */
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

/** A generator or another iterator: can be gone through once. */
export class Lazy {
  readonly iterator: Iterator<Value>;
  /** What `type(x).__name__` says, e.g. `generator`. */
  readonly typeName: string;

  constructor(iterator: Iterator<Value>, typeName = 'generator') {
    this.iterator = iterator;
    this.typeName = typeName;
  }
}

/** What a name, key or attribute gives that is not there. */
export class Undefined {
  readonly message: string;
  /** Whether any use but `is defined` and `|default` fails; Salt's default. */
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

/** Text, marked or not. */
export function isText(value: Value): value is string | Markup {
  return typeof value === 'string' || value instanceof Markup;
}

/** The characters of a text. */
export function textOf(value: string | Markup): string {
  return typeof value === 'string' ? value : value.text;
}

/** An `int`, and as in Python a `bool` is one. */
export function isInteger(value: Value): value is number | bigint | boolean {
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
}

/** Those that have no class of their own above. */
export function isPyObject(value: Value): value is PyObject {
  return typeof value === 'object' && value !== null && 'repr' in value;
}

// `str()`, `repr()` and the names of types.

/** `str(value)`. @throws PythonException UndefinedError where Salt's strict undefined values are printed */
export function str(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) {
    if (value.isStrict) throw value.error();
    return '';
  }
  if (typeof value === 'object' && value !== null && 'str' in value) {
    return value.str?.() ?? value.repr();
  }
  return repr(value);
}

/** `repr(value)`. */
export function repr(value: Value, walk: RecursionGuard = new RecursionGuard()): string {
  switch (typeof value) {
    case 'string':
      walk.take(value.length);
      return textRepr(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'number':
    case 'bigint':
      return integerText(value);
  }
  if (value === null) return 'None';
  if (value instanceof Float) return floatRepr(value.value);
  if (value instanceof Markup) return `Markup(${textRepr(value.text)})`;
  if (value instanceof Bytes) return bytesRepr(value.bytes);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Range) return rangeRepr(value);
  if (value instanceof Lazy) return `<${value.typeName} object at 0x7f0000000000>`;
  if ('repr' in value) return value.repr();
  return containerRepr(value, walk);
}

function containerRepr(value: Value[] | Tuple | Dict | PySet, walk: RecursionGuard): string {
  const isOpen = walk.isInside(value);
  if (isOpen && Array.isArray(value)) return '[...]';
  if (isOpen && value instanceof Dict) return '{...}';
  return walk.into(value, () => {
    const all = (items: readonly Value[]): string => items.map((v) => repr(v, walk)).join(', ');
    if (Array.isArray(value)) return `[${all(value)}]`;
    if (value instanceof Tuple)
      return `(${all(value.items)}${value.items.length === 1 ? ',' : ''})`;
    if (value instanceof PySet) return value.size === 0 ? 'set()' : `{${all(value.values())}}`;
    return `{${Array.from(value.entries(), ([k, v]) => `${repr(k, walk)}: ${repr(v, walk)}`).join(', ')}}`;
  });
}

/**
 * What `{{ … }}` prints: Salt prints the values of a dict with `str()`, of which only those that
 * are undefined look different [SerializerExtension.finalizer].
 */
export function printedText(value: Value, walk: RecursionGuard = new RecursionGuard()): string {
  if (!(value instanceof Dict))
    return typeof value === 'object' ? reprOrStr(value, walk) : str(value);
  return walk.into(value, () => {
    const pairs = Array.from(value.entries(), ([key, item]) => {
      const isText = typeof item === 'string' || item instanceof Markup;
      return `${repr(key, walk)}: ${isText ? repr(item, walk) : printedText(item, walk)}`;
    });
    return `{${pairs.join(', ')}}`;
  });
}

function reprOrStr(value: Value, walk: RecursionGuard): string {
  if (value instanceof Tuple && value.fields.length > 0) {
    throw typeError("_GroupTuple.__new__() missing 1 required positional argument: 'list'");
  }
  return Array.isArray(value) || value instanceof Tuple || value instanceof PySet
    ? containerRepr(value, walk)
    : str(value);
}

/** `type(value).__name__`. */
export function typeName(value: Value): string {
  switch (typeof value) {
    case 'string':
      return 'str';
    case 'boolean':
      return 'bool';
    case 'number':
    case 'bigint':
      return 'int';
  }
  if (value === null) return 'NoneType';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Float) return 'float';
  if (value instanceof Tuple) return value.fields.length > 0 ? '_GroupTuple' : 'tuple';
  if (value instanceof Dict) return 'dict';
  if (value instanceof PySet) return 'set';
  if (value instanceof Undefined) return value.isStrict ? 'StrictUndefined' : 'Undefined';
  if (value instanceof Markup) return 'Markup';
  if (value instanceof Bytes) return 'bytes';
  if (value instanceof Range) return 'range';
  return value.typeName;
}

/** How jinja2 names an object in a message, e.g. `dict object`. */
export function describeObject(value: Value): string {
  if (value === null) return 'None';
  const name = typeName(value);
  if (value instanceof Markup) return `markupsafe.${name} object`;
  if (value instanceof Tuple && value.fields.length > 0) return `jinja2.filters.${name} object`;
  const module = typeof value === 'object' && 'repr' in value ? (value.module ?? '') : '';
  return `${module}${name} object`;
}

function rangeRepr({ start, stop, step }: Range): string {
  return step === 1 ? `range(${start}, ${stop})` : `range(${start}, ${stop}, ${step})`;
}

const shortEscapes: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\\': '\\\\',
};
/** What `str.isprintable` refuses: the categories Other and Separator but for the space. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\\]/gu;

/** `repr()` of a text. */
export function textRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(unprintable, (character) =>
    character === ' ' ? ' ' : (shortEscapes[character] ?? codeEscape(character)),
  );
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

/** Whether `str.isprintable` says so of a character. */
export function isPrintable(character: string): boolean {
  return character === ' ' || character === '\\' || character.search(unprintable) < 0;
}

function codeEscape(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

/** `repr()` of bytes. */
export function bytesRepr(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('latin1');
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let escaped = '';
  for (const character of text) {
    const isPlain = character >= ' ' && character <= '~' && character !== '\\';
    if (character === quote) escaped += `\\${character}`;
    else escaped += isPlain ? character : (shortEscapes[character] ?? codeEscape(character));
  }
  return `b${quote}${escaped}${quote}`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '>': '&gt;',
  '<': '&lt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** `markupsafe.escape`: what is marked as safe stays as it is. */
export function escapeHtml(value: Value): string {
  if (value instanceof Markup) return value.text;
  return str(value).replace(/[&><'"]/g, (character) => entities[character] ?? character);
}

// Data of JavaScript to Python's values and back.

/**
 * Data as values: whole numbers become `int`, others `float`, objects and maps `dict`. Values that
 * are Python's already stay as they are.
 * @throws PythonException TypeError for functions and the like; LimitExceeded for data without end
 */
export function toPython(data: unknown, walk: RecursionGuard = new RecursionGuard()): Value {
  switch (typeof data) {
    case 'string':
    case 'boolean':
      return data;
    case 'bigint':
      return normalizeInteger(data);
    case 'number':
      return Number.isSafeInteger(data) && !Object.is(data, -0) ? data : new Float(data);
    case 'undefined':
      return null;
    case 'object':
      return data === null ? null : fromObject(data, walk);
    default:
      throw typeError(`a ${typeof data} cannot be given to a template`);
  }
}

function fromObject(data: object, walk: RecursionGuard): Value {
  if (isPythonObject(data)) return data;
  return walk.into(data, () => {
    walk.take(1);
    if (Array.isArray(data)) return data.map((item) => toPython(item, walk));
    if (data instanceof Uint8Array) return new Bytes(data);
    if (data instanceof Set) return new PySet(Array.from(data, (item) => toPython(item, walk)));
    const entries = data instanceof Map ? [...data] : Object.entries(data);
    return new Dict(
      entries.map(([key, value]) => [toPython(key, walk), toPython(value, walk)] as const),
    );
  });
}

function isPythonObject(data: object): data is Exclude<Value & object, Value[]> {
  return (
    data instanceof Dict ||
    data instanceof Float ||
    data instanceof Tuple ||
    data instanceof Markup ||
    data instanceof Bytes ||
    data instanceof PySet ||
    data instanceof Range ||
    data instanceof Lazy ||
    data instanceof Undefined ||
    ('repr' in data && typeof data.repr === 'function' && 'typeName' in data)
  );
}

/** Data without Python's classes: a dict is a `Map`, because its keys need not be text. */
export type PlainData =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float
  | readonly PlainData[]
  | ReadonlyMap<PlainData, PlainData>;

/**
 * Values as plain data. A float without a fraction stays a {@link Float}, so that 2.0 does not
 * become 2.
 * @throws PythonException TypeError for what is no data, UndefinedError; LimitExceeded
 */
export function toPlain(value: Value, walk: RecursionGuard = new RecursionGuard()): PlainData {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Float) return Number.isInteger(value.value) ? value : value.value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Bytes) return value.bytes;
  if (value instanceof Undefined) throw value.error();
  return walk.into(value, () => {
    const all = (items: readonly Value[]): PlainData[] => items.map((item) => toPlain(item, walk));
    if (Array.isArray(value)) return all(value);
    if (value instanceof Tuple) return all(value.items);
    if (value instanceof PySet) return all(value.values());
    if (value instanceof Dict) {
      return new Map(Array.from(value.entries(), ([k, v]) => [toPlain(k, walk), toPlain(v, walk)]));
    }
    const name = isPyObject(value) ? value.typeName : typeName(value);
    throw typeError(`a value of type '${name}' is no data`);
  });
}

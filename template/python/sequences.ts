/** Implements iteration, `len()` and `bool()`. */

import { PythonException, typeError } from './exceptions.ts';
import { typeName } from './repr.ts';
import { charactersOf, textLength } from './text.ts';
import {
  Bytes,
  Dict,
  Float,
  isPyObject,
  isText,
  Lazy,
  PySet,
  Range,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from './values.ts';

/**
 * Implements `iter(value)`.
 * @throws PythonException TypeError
 */
export function iterate(value: Value): Iterator<Value> {
  if (Array.isArray(value)) return value.values();
  if (isText(value)) return charactersOf(textOf(value)).values();
  if (value instanceof Dict) return dictKeys(value);
  if (value instanceof Tuple) return value.items.values();
  if (value instanceof PySet) return setMembers(value);
  if (value instanceof Lazy) return value.iterator;
  if (value instanceof Range) return rangeNumbers(value);
  if (value instanceof Bytes) return value.bytes.values();
  if (value instanceof Undefined) {
    if (value.isStrict) throw value.error();
    return [][Symbol.iterator]();
  }
  if (isPyObject(value) && value.iterate !== undefined) return value.iterate();
  throw typeError(`'${typeName(value)}' object is not iterable`);
}

/**
 * Implements `list(value)`. Calls `step` for each element.
 * @throws PythonException TypeError
 */
export function toArray(value: Value, step: () => void): Value[] {
  const items: Value[] = [];
  const iterator = iterate(value);
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    step();
    items.push(next.value);
  }
  return items;
}

function* dictKeys(dict: Dict): Generator<Value> {
  const { size } = dict;
  for (const [key] of dict.entries()) {
    if (dict.size !== size) sizeChangedError('dictionary');
    yield key;
  }
  if (dict.size !== size) sizeChangedError('dictionary');
}

function* setMembers(set: PySet): Generator<Value> {
  const { size } = set;
  for (const member of set.values()) {
    if (set.size !== size) sizeChangedError('Set');
    yield member;
  }
}

/**
 * Throws the error for a container whose size changed during iteration.
 * @throws PythonException RuntimeError
 */
function sizeChangedError(what: string): never {
  throw new PythonException('RuntimeError', `${what} changed size during iteration`);
}

function* rangeNumbers({ start, step, length }: Range): Generator<Value> {
  for (let index = 0; index < length; index += 1) yield start + index * step;
}

/**
 * Implements `len(value)`. Returns `undefined` for values without a length.
 * @throws PythonException UndefinedError
 */
export function tryLength(value: Value): number | undefined {
  if (Array.isArray(value)) return value.length;
  if (isText(value)) return textLength(textOf(value));
  if (value instanceof Dict || value instanceof PySet) return value.size;
  if (value instanceof Tuple) return value.items.length;
  if (value instanceof Range) return value.length;
  if (value instanceof Bytes) return value.bytes.length;
  if (value instanceof Undefined) {
    if (value.isStrict) throw value.error();
    return 0;
  }
  return isPyObject(value) ? value.size?.() : undefined;
}

/**
 * Implements `len(value)`.
 * @throws PythonException TypeError
 */
export function lengthOf(value: Value): number {
  const length = tryLength(value);
  if (length === undefined) throw typeError(`object of type '${typeName(value)}' has no len()`);
  return length;
}

/**
 * Implements `bool(value)`.
 * @throws PythonException UndefinedError
 */
export function isTruthy(value: Value): boolean {
  switch (typeof value) {
    case 'boolean':
      return value;
    case 'string':
      return value !== '';
    case 'number':
      return value !== 0;
    case 'bigint':
      return true;
  }
  if (value === null) return false;
  if (value instanceof Float) return value.value !== 0;
  return tryLength(value) !== 0;
}

/** Describes the types of two operands for messages. */
export function describeOperands(left: Value, right: Value): string {
  return `'${typeName(left)}' and '${typeName(right)}'`;
}

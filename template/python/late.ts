/**
 * Late values. A template can output a late value without reading it: the rendered text then
 * contains a mark, and the text of the value is filled in after the rendering. Every other use of a
 * late value reads it.
 */

import { PythonException } from './exceptions.ts';
import { Dict, type PyObject, type Value } from './values.ts';

/** Length for which each mark counts against the limit of characters, in characters. */
export const countedMarkLength = 256;

/** A value that can be output without being read. `evaluate` never returns one. */
export abstract class LateValue implements PyObject {
  readonly typeName = 'LateValue';

  /** Returns the value, and records that it was read. */
  abstract read(): Value;

  /** Returns the mark to output instead of the value, or `undefined` if it must be read. */
  abstract mark(): string | undefined;

  /** Returns an item of this value without reading it, or `undefined` if it must be read. */
  abstract child(key: Value): LateValue | undefined;

  /** @throws PythonException always, because a late value is read before it is used */
  repr(): string {
    throw new PythonException('LateValueError', 'a late value was used without being read');
  }
}

/** A dictionary with late values. */
export abstract class LateDict extends Dict {
  /** Returns a value without reading it, or `undefined` if it must be read. */
  abstract late(key: Value): LateValue | undefined;
}

/** Returns a value, and reads it if it is late. */
export function readLate(value: Value): Value {
  return value instanceof LateValue ? value.read() : value;
}

/** Returns an item of a late value or dictionary without reading it, if that is possible. */
export function lateItem(target: Value, key: Value): LateValue | undefined {
  if (target instanceof LateValue) return target.child(key);
  return target instanceof LateDict ? target.late(key) : undefined;
}

/**
 * Late values. A template can output a late value without reading it. The rendered text then
 * contains a placeholder (`mark` in the code), and the text of the value replaces the placeholder
 * after the rendering. Every other use of a late value reads it.
 */

import { PythonException } from './exceptions.ts';
import { Dict, type PyObject, type Value } from './values.ts';

/**
 * Number of characters that each placeholder counts towards the limit of the text length. A
 * placeholder stands for a value that is inserted after the rendering.
 */
export const countedMarkLength = 256;

/**
 * A value that a template can print as a placeholder, so that the value itself need not be read.
 * `evaluate` never returns a late value.
 */
export abstract class LateValue implements PyObject {
  readonly typeName = 'LateValue';

  /** Returns the value, and records that it was read. */
  abstract read(): Value;

  /**
   * Returns the placeholder to output instead of the value, or `undefined` if the value must be
   * read.
   */
  abstract mark(): string | undefined;

  /**
   * Returns the item at a key as another {@link LateValue}, so that this value need not be read.
   * Returns `undefined` if the caller can get the item only by reading this value.
   */
  abstract child(key: Value): LateValue | undefined;

  /** @throws PythonException always. Callers must call {@link read} to get the value */
  repr(): string {
    throw new PythonException('LateValueError', 'a late value was used without being read');
  }
}

/**
 * A dictionary with late values. A late value is a value that a template can output as a
 * placeholder, before the program reads the value.
 */
export abstract class LateDict extends Dict {
  /**
   * Returns the value of a key as a late value, which the template can output as a placeholder.
   * Returns `undefined` if the template must read the value instead.
   */
  abstract late(key: Value): LateValue | undefined;
}

/** Reads a late value, and returns the result. Returns any other value unchanged. */
export function readLate(value: Value): Value {
  return value instanceof LateValue ? value.read() : value;
}

/**
 * Returns an item of a late value or dictionary without reading the item: the result is a late
 * value too. Templates can output a late value as a placeholder. Returns `undefined` if the caller
 * must read the item.
 */
export function lateItem(target: Value, key: Value): LateValue | undefined {
  if (target instanceof LateValue) return target.child(key);
  return target instanceof LateDict ? target.late(key) : undefined;
}

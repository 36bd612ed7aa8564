/** Implements `value[start:stop:step]` and `value[index]`. */

import { PythonException, typeError, valueError } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import { toInteger } from './numbers.ts';
import { repr, textRepr, typeName } from './repr.ts';
import { charactersOf } from './text.ts';
import {
  Bytes,
  Dict,
  Float,
  isInteger,
  isPyObject,
  isText,
  Markup,
  Range,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from './values.ts';

/** Parts of a slice. An omitted part is `None`. */
export interface Slice {
  readonly start: Value;
  readonly stop: Value;
  readonly step: Value;
  readonly meter: UsageMeter;
}

/** Number of copied items or characters that count as one work step. */
const itemsPerStep = 16;

/**
 * Implements `value[start:stop:step]`.
 * @throws PythonException TypeError, ValueError; LimitExceeded
 */
export function sliceOf(value: Value, slice: Slice): Value {
  if (value instanceof Undefined) throw value.error();
  if (Array.isArray(value)) return sliceItems(value, slice);
  if (value instanceof Tuple) return new Tuple(sliceItems(value.items, slice));
  if (typeof value === 'string') return sliceItems(charactersOf(value), slice).join('');
  if (value instanceof Markup)
    return new Markup(sliceItems(charactersOf(value.text), slice).join(''));
  if (value instanceof Bytes)
    return new Bytes(Uint8Array.from(sliceItems([...value.bytes], slice)));
  if (value instanceof Range) return sliceRange(value, slice);
  if (value instanceof Dict) throw typeError("unhashable type: 'slice'");
  throw typeError(`'${typeName(value)}' object is not subscriptable`);
}

function sliceItems<T>(items: readonly T[], slice: Slice): T[] {
  const { start, count, step } = resolveSlice(slice, items.length);
  slice.meter.step(1 + (items.length + count) / itemsPerStep);
  if (step === 1) return items.slice(start, start + count);
  const picked: T[] = [];
  for (let index = 0; index < count; index += 1) {
    const item = items[start + index * step];
    if (item !== undefined) picked.push(item);
  }
  return picked;
}

function sliceRange(range: Range, slice: Slice): Range {
  const { start, count, step } = resolveSlice(slice, range.length);
  const first = range.start + start * range.step;
  const stride = range.step * step;
  return new Range(first, first + count * stride, stride);
}

function resolveSlice(
  slice: Slice,
  length: number,
): { start: number; count: number; step: number } {
  const step = slice.step === null ? 1 : sliceIndex(slice.step);
  if (step === 0) throw valueError('slice step cannot be zero');
  const low = step > 0 ? 0 : -1;
  const high = step > 0 ? length : length - 1;
  const clip = (part: Value, fallback: number): number => {
    if (part === null) return fallback;
    const at = sliceIndex(part);
    return Math.min(high, Math.max(low, at < 0 ? at + length : at));
  };
  const start = clip(slice.start, step > 0 ? low : high);
  const stop = clip(slice.stop, step > 0 ? high : low);
  return { start, step, count: Math.max(0, Math.ceil((stop - start) / step)) };
}

/**
 * Converts a part of a slice to a number.
 * @throws PythonException TypeError
 */
function sliceIndex(value: Value): number {
  if (isInteger(value)) return Number(value);
  if (value instanceof Undefined) throw value.error();
  throw typeError('slice indices must be integers or None or have an __index__ method');
}

/**
 * Implements `value[key]`. Returns `undefined` where Python raises `LookupError` or `TypeError`;
 * templates treat that as an undefined value.
 */
export function tryItem(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) {
    if (key instanceof Undefined && key.isStrict) throw key.error();
    return isHashable(key) ? value.get(key) : undefined;
  }
  if (isInteger(key)) return itemAt(value, Number(toInteger(key)));
  return isPyObject(value) ? value.item?.(key) : undefined;
}

function itemAt(value: Value, at: number): Value | undefined {
  if (Array.isArray(value)) return value.at(at);
  if (value instanceof Tuple) return value.items.at(at);
  if (typeof value === 'string') return charactersOf(value).at(at);
  if (value instanceof Markup) {
    const character = charactersOf(textOf(value)).at(at);
    return character === undefined ? undefined : new Markup(character);
  }
  if (value instanceof Bytes) return value.bytes.at(at);
  if (value instanceof Range) {
    const place = at < 0 ? at + value.length : at;
    return place < 0 || place >= value.length ? undefined : value.start + place * value.step;
  }
  return isPyObject(value) ? value.item?.(at) : undefined;
}

/** Whether a value can be a key of a dict. */
export function isHashable(value: Value): boolean {
  if (value instanceof Tuple) return value.items.every(isHashable);
  return !(
    Array.isArray(value) ||
    value instanceof Dict ||
    (typeof value === 'object' && typeName(value) === 'set')
  );
}

/** Creates a `KeyError`. */
export function keyError(key: Value): PythonException {
  return new PythonException('KeyError', isText(key) ? textRepr(textOf(key)) : repr(key));
}

/**
 * Converts a value to an index.
 * @throws PythonException TypeError
 */
export function asIndex(value: Value): number {
  if (isInteger(value)) return Number(value);
  if (value instanceof Undefined) throw value.error();
  const name = value instanceof Float ? 'float' : typeName(value);
  throw typeError(`'${name}' object cannot be interpreted as an integer`);
}

/** Implements `==`, `<`, `in` and `sorted`. */

import { PythonException, typeError } from './exceptions.ts';
import { RecursionGuard, type UsageMeter } from './limits.ts';
import { toInteger } from './numbers.ts';
import { typeName } from './repr.ts';
import { describeOperands, iterate } from './sequences.ts';
import {
  Bytes,
  Dict,
  Float,
  isInteger,
  isText,
  PySet,
  Range,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from './values.ts';

/** An ordering operator. */
export type OrderOperator = '<' | '<=' | '>' | '>=';

/**
 * Implements `left == right`.
 * @throws PythonException UndefinedError for a strict undefined value
 */
export function equals(
  left: Value,
  right: Value,
  walk: RecursionGuard = new RecursionGuard(),
): boolean {
  if (left instanceof Undefined || right instanceof Undefined) return undefinedEquals(left, right);
  if (left === right) return true;
  const number = asNumber(left);
  if (number !== undefined) {
    const other = asNumber(right);
    return other !== undefined && numberOrder(number, other) === 0;
  }
  if (isText(left)) return isText(right) && textOf(left) === textOf(right);
  return typeof left === 'object' && left !== null && containerEquals(left, right, walk);
}

function containerEquals(left: Value & object, right: Value, walk: RecursionGuard): boolean {
  return walk.into(left, () => {
    if (Array.isArray(left)) return Array.isArray(right) && allEqual(left, right, walk);
    if (left instanceof Tuple) {
      return right instanceof Tuple && allEqual(left.items, right.items, walk);
    }
    if (left instanceof Dict) return right instanceof Dict && dictEquals(left, right, walk);
    if (left instanceof PySet) {
      return right instanceof PySet && left.size === right.size && isSubset(left, right);
    }
    if (left instanceof Bytes) {
      return right instanceof Bytes && Buffer.compare(left.bytes, right.bytes) === 0;
    }
    return left instanceof Range && right instanceof Range && rangeEquals(left, right);
  });
}

function undefinedEquals(left: Value, right: Value): boolean {
  for (const side of [left, right]) {
    if (side instanceof Undefined && side.isStrict) throw side.error();
  }
  return left instanceof Undefined && right instanceof Undefined;
}

function allEqual(left: readonly Value[], right: readonly Value[], walk: RecursionGuard): boolean {
  if (left.length !== right.length) return false;
  walk.take(left.length);
  return left.every((item, index) => equals(item, right[index] ?? null, walk));
}

function dictEquals(left: Dict, right: Dict, walk: RecursionGuard): boolean {
  if (left.size !== right.size) return false;
  walk.take(left.size);
  for (const [key, value] of left.entries()) {
    const other = right.get(key);
    if (other === undefined || !equals(value, other, walk)) return false;
  }
  return true;
}

/** Whether `right` contains all members of `left`. */
export function isSubset(left: PySet, right: PySet): boolean {
  return left.values().every((member) => right.has(member));
}

function rangeEquals(left: Range, right: Range): boolean {
  if (left.length !== right.length) return false;
  if (left.length === 0) return true;
  return left.start === right.start && (left.length === 1 || left.step === right.step);
}

/** Returns the number, or `undefined` for other values. */
function asNumber(value: Value): number | bigint | undefined {
  if (isInteger(value)) return toInteger(value);
  return value instanceof Float ? value.value : undefined;
}

/**
 * Implements the ordering operators.
 * @throws PythonException TypeError for values without an order
 */
export function isOrdered(left: Value, operator: OrderOperator, right: Value): boolean {
  for (const side of [left, right]) if (side instanceof Undefined) throw side.error();
  if (left instanceof PySet && right instanceof PySet) return setOrder(left, operator, right);
  const order = tryOrder(left, right, new RecursionGuard());
  if (order === undefined) {
    throw typeError(
      `'${operator}' not supported between instances of ${describeOperands(left, right)}`,
    );
  }
  return satisfies(order, operator);
}

function satisfies(order: number, operator: OrderOperator): boolean {
  switch (operator) {
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
  }
}

/**
 * Compares two values. Returns a negative number, zero or a positive number; NaN if a value is NaN;
 * `undefined` if the values have no order.
 */
function tryOrder(left: Value, right: Value, walk: RecursionGuard): number | undefined {
  const number = asNumber(left);
  if (number !== undefined) {
    const other = asNumber(right);
    return other === undefined ? undefined : numberOrder(number, other);
  }
  if (isText(left)) return isText(right) ? textOrder(textOf(left), textOf(right)) : undefined;
  if (Array.isArray(left) && Array.isArray(right)) return sequenceOrder(left, right, walk);
  if (left instanceof Tuple && right instanceof Tuple) {
    return sequenceOrder(left.items, right.items, walk);
  }
  if (left instanceof Bytes && right instanceof Bytes) {
    return Buffer.compare(left.bytes, right.bytes);
  }
  return undefined;
}

function numberOrder(left: number | bigint, right: number | bigint): number {
  if (left < right) return -1;
  if (left > right) return 1;
  return Number.isNaN(Number(left)) || Number.isNaN(Number(right)) ? Number.NaN : 0;
}

/** Compares texts by code points, as Python does. JavaScript's operators compare UTF-16 units. */
export function textOrder(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  let index = 0;
  while (index < length && left.charCodeAt(index) === right.charCodeAt(index)) index += 1;
  if (index >= length) return left.length - right.length;
  return (left.codePointAt(index) ?? 0) - (right.codePointAt(index) ?? 0);
}

function sequenceOrder(
  left: readonly Value[],
  right: readonly Value[],
  walk: RecursionGuard,
): number | undefined {
  return walk.into(left, () => {
    for (const [index, item] of left.entries()) {
      const other = right[index];
      if (other === undefined) return 1;
      if (equals(item, other, walk)) continue;
      const order = tryOrder(item, other, walk);
      if (order === undefined) {
        throw typeError(`'<' not supported between instances of ${describeOperands(item, other)}`);
      }
      return order;
    }
    return left.length - right.length;
  });
}

function setOrder(left: PySet, operator: OrderOperator, right: PySet): boolean {
  switch (operator) {
    case '<':
      return left.size < right.size && isSubset(left, right);
    case '<=':
      return isSubset(left, right);
    case '>':
      return right.size < left.size && isSubset(right, left);
    case '>=':
      return isSubset(right, left);
  }
}

/**
 * Implements `member in container`.
 * @throws PythonException TypeError
 */
export function contains(container: Value, member: Value): boolean {
  if (isText(container)) {
    if (!isText(member)) {
      if (member instanceof Undefined && member.isStrict) {
        throw typeError("'in <string>' requires string as left operand, not StrictUndefined");
      }
      throw typeError(`'in <string>' requires string as left operand, not ${typeName(member)}`);
    }
    return textOf(container).includes(textOf(member));
  }
  if (container instanceof Undefined && container.isStrict) throw container.error();
  if (container instanceof Dict || container instanceof PySet) return container.has(member);
  if (container instanceof Bytes) return bytesContain(container, member);
  if (typeof container === 'object' && container !== null && 'typeName' in container) {
    if ('contains' in container && container.contains !== undefined)
      return container.contains(member);
    if (container.typeName === 'dict_keys')
      return [...iterateAll(container)].some((k) => equals(k, member));
  }
  return anyEqual(container, member);
}

/**
 * Implements `member in bytes`.
 * @throws PythonException TypeError
 */
function bytesContain({ bytes }: Bytes, member: Value): boolean {
  if (isInteger(member)) return bytes.includes(Number(member));
  if (member instanceof Bytes) return Buffer.from(bytes).includes(Buffer.from(member.bytes));
  throw typeError(`a bytes-like object is required, not '${typeName(member)}'`);
}

function anyEqual(container: Value, member: Value): boolean {
  for (const item of iterateAll(container)) {
    if (item === member && !(item instanceof Undefined)) return true;
    if (equals(item, member)) return true;
  }
  return false;
}

function* iterateAll(container: Value): Generator<Value> {
  let iterator: Iterator<Value>;
  try {
    iterator = iterate(container);
  } catch (error) {
    if (!(error instanceof PythonException)) throw error;
    throw typeError(`argument of type '${typeName(container)}' is not iterable`);
  }
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) yield next.value;
}

/** Options of `sorted`. */
export interface SortOptions {
  readonly key?: (item: Value) => Value;
  readonly reverse?: boolean;
}

/**
 * Implements `sorted(items)`. The order is stable, also in reverse.
 * @throws PythonException TypeError for values without an order
 */
export function sortValues(
  items: readonly Value[],
  options: SortOptions,
  meter: UsageMeter,
): Value[] {
  const { key = (item) => item, reverse = false } = options;
  meter.step(items.length);
  const keyed = items.map((item) => ({ item, key: key(item) }));
  const direction = reverse ? -1 : 1;
  keyed.sort((left, right) => {
    meter.step();
    if (isOrdered(right.key, '<', left.key)) return direction;
    return isOrdered(left.key, '<', right.key) ? -direction : 0;
  });
  return keyed.map(({ item }) => item);
}

/** Python's operators: arithmetic, comparison and `in`. */

import { PythonException, typeError } from './exceptions.ts';
import { formatPercent } from './format.ts';
import { RecursionGuard, type UsageMeter } from './limits.ts';
import {
  addIntegers,
  floorDivideIntegers,
  type Integer,
  integerPower,
  integerRemainder,
  multiplyIntegers,
  negateInteger,
  toDouble,
  toInteger,
} from './numbers.ts';
import { describeOperands, iterate } from './sequences.ts';
import {
  Bytes,
  Dict,
  escapeHtml,
  Float,
  isInteger,
  isText,
  Markup,
  PySet,
  Range,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

/** An operator with two operands. */
export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**';

/** @throws PythonException TypeError, ZeroDivisionError, OverflowError; LimitExceeded */
export function binaryOperation(
  left: Value,
  operator: BinaryOperator,
  right: Value,
  meter: UsageMeter,
): Value {
  if (isInteger(left) && isInteger(right)) {
    return integerOperation(toInteger(left), operator, toInteger(right));
  }
  if (operator === '%' && isText(left)) return formatPercent(left, right, meter);
  for (const side of [left, right]) if (side instanceof Undefined) throw side.error();
  const first = asDouble(left);
  const second = asDouble(right);
  if (first !== undefined && second !== undefined) return floatOperation(first, operator, second);
  const result = containerOperation(left, operator, right, meter);
  if (result === undefined) throw unsupported(left, operator, right);
  return result;
}

/** `-value` and `+value`. @throws PythonException TypeError */
export function unaryOperation(operator: '+' | '-', value: Value): Value {
  if (value instanceof Undefined) throw value.error();
  if (isInteger(value)) {
    const integer = toInteger(value);
    return operator === '-' ? negateInteger(integer) : integer;
  }
  if (value instanceof Float) return new Float(operator === '-' ? -value.value : value.value);
  throw typeError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
}

function integerOperation(left: Integer, operator: BinaryOperator, right: Integer): Value {
  switch (operator) {
    case '+':
      return addIntegers(left, right);
    case '-':
      return addIntegers(left, negateInteger(right));
    case '*':
      return multiplyIntegers(left, right);
    case '/':
      return divideIntegers(left, right);
    case '//':
      return floorDivideIntegers(left, right);
    case '%':
      return integerRemainder(left, right);
    case '**':
      return right >= 0 ? integerPower(left, right) : doublePower(toDouble(left), toDouble(right));
  }
}

function floatOperation(left: number, operator: BinaryOperator, right: number): Value {
  switch (operator) {
    case '+':
      return new Float(left + right);
    case '-':
      return new Float(left - right);
    case '*':
      return new Float(left * right);
    case '/':
      return divide(left, right, 'float division by zero');
    case '//':
      if (right === 0) throw zeroDivision('float floor division by zero');
      return new Float(floorQuotient(left, right));
    case '%':
      if (right === 0) throw zeroDivision('float modulo');
      return new Float(floatModulo(left, right));
    case '**':
      return doublePower(left, right);
  }
}

/** Correctly rounded, whatever the size: enough bits of the quotient, and whether any are lost. */
function divideIntegers(left: Integer, right: Integer): Float {
  if (typeof left === 'number' && typeof right === 'number') {
    return divide(left, right, 'division by zero');
  }
  if (right === 0) throw zeroDivision('division by zero');
  const dividend = BigInt(left);
  const divisor = BigInt(right);
  const shift = BigInt(Math.max(0, sizeInBits(divisor) - sizeInBits(dividend) + 64));
  const scaled = dividend << shift;
  const quotient = scaled / divisor;
  const isExact = quotient * divisor === scaled;
  const sticky =
    isExact || quotient % 2n !== 0n
      ? quotient
      : quotient + (scaled < 0n !== divisor < 0n ? -1n : 1n);
  return new Float(toDouble(sticky) / 2 ** Number(shift));
}

function sizeInBits(value: bigint): number {
  return value.toString(16).replace('-', '').length * 4;
}

function divide(left: number, right: number, message: string): Float {
  if (right === 0) throw zeroDivision(message);
  return new Float(left / right);
}

function zeroDivision(message: string): PythonException {
  return new PythonException('ZeroDivisionError', message);
}

function floatModulo(left: number, right: number): number {
  const rest = left % right;
  if (rest === 0) return right < 0 ? -0 : 0;
  return rest < 0 !== right < 0 ? rest + right : rest;
}

/** From the remainder, as CPython does: the quotient itself may be rounded up. */
function floorQuotient(left: number, right: number): number {
  const quotient = (left - floatModulo(left, right)) / right;
  if (quotient === 0) return left < 0 !== right < 0 ? -0 : 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function doublePower(base: number, exponent: number): Value {
  if (base === 0 && exponent < 0) {
    throw zeroDivision('0.0 cannot be raised to a negative power');
  }
  if (
    base < 0 &&
    Number.isFinite(base) &&
    Number.isFinite(exponent) &&
    !Number.isInteger(exponent)
  ) {
    throw typeError('complex numbers are not supported');
  }
  const result = base === 1 ? 1 : base ** exponent;
  if (!Number.isFinite(result) && Number.isFinite(base) && Number.isFinite(exponent)) {
    throw new PythonException('OverflowError', "(34, 'Numerical result out of range')");
  }
  return new Float(result);
}

function asDouble(value: Value): number | undefined {
  if (value instanceof Float) return value.value;
  return isInteger(value) ? toDouble(toInteger(value)) : undefined;
}

function containerOperation(
  left: Value,
  operator: BinaryOperator,
  right: Value,
  meter: UsageMeter,
): Value | undefined {
  if (operator === '+') return concatenate(left, right, meter);
  if (operator === '-' && left instanceof PySet && right instanceof PySet) {
    return new PySet(left.values().filter((member) => !right.has(member)));
  }
  if (operator !== '*') return undefined;
  if (isInteger(right)) return repeat(left, toInteger(right), meter);
  return isInteger(left) ? repeat(right, toInteger(left), meter) : undefined;
}

function concatenate(left: Value, right: Value, meter: UsageMeter): Value | undefined {
  if (isText(left)) {
    if (!isText(right)) {
      throw left instanceof Markup
        ? unsupported(left, '+', right)
        : typeError(`can only concatenate str (not "${typeName(right)}") to str`);
    }
    meter.text(textOf(left).length + textOf(right).length);
    if (typeof left === 'string' && typeof right === 'string') return left + right;
    return new Markup(escapeHtml(left) + escapeHtml(right));
  }
  if (Array.isArray(left)) {
    if (!Array.isArray(right)) throw cannotConcatenate('list', right);
    meter.step(left.length + right.length);
    return [...left, ...right];
  }
  if (left instanceof Tuple) {
    if (!(right instanceof Tuple)) throw cannotConcatenate('tuple', right);
    meter.step(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  if (left instanceof Bytes && right instanceof Bytes) {
    meter.text(left.bytes.length + right.bytes.length);
    return new Bytes(Buffer.concat([left.bytes, right.bytes]));
  }
  return undefined;
}

function cannotConcatenate(type: string, right: Value): PythonException {
  return typeError(`can only concatenate ${type} (not "${typeName(right)}") to ${type}`);
}

function repeat(value: Value, count: Integer, meter: UsageMeter): Value | undefined {
  const times = Math.max(0, Number(count));
  if (isText(value)) {
    const text = textOf(value);
    meter.text(text.length * times);
    const repeated = text === '' ? '' : text.repeat(times);
    return value instanceof Markup ? new Markup(repeated) : repeated;
  }
  if (Array.isArray(value)) return repeatItems(value, times, meter);
  return value instanceof Tuple ? new Tuple(repeatItems(value.items, times, meter)) : undefined;
}

function repeatItems(items: readonly Value[], times: number, meter: UsageMeter): Value[] {
  if (items.length === 0) return [];
  meter.step(items.length * times);
  return Array.from({ length: times }, () => items).flat();
}

function unsupported(left: Value, operator: BinaryOperator, right: Value): PythonException {
  if (operator === '*' && (isSequence(left) || isSequence(right))) {
    const other = isSequence(left) ? right : left;
    return typeError(`can't multiply sequence by non-int of type '${typeName(other)}'`);
  }
  const name = operator === '**' ? '** or pow()' : operator;
  return typeError(`unsupported operand type(s) for ${name}: ${describeOperands(left, right)}`);
}

function isSequence(value: Value): boolean {
  return isText(value) || Array.isArray(value) || value instanceof Tuple || value instanceof Bytes;
}

// `==`, `<` and `in`.

/** A comparison of order. */
export type OrderOperator = '<' | '<=' | '>' | '>=';

/** `left == right`. @throws PythonException UndefinedError for a strict undefined value */
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

/** Whether all members of the one are in the other. */
export function isSubset(left: PySet, right: PySet): boolean {
  return left.values().every((member) => right.has(member));
}

function rangeEquals(left: Range, right: Range): boolean {
  if (left.length !== right.length) return false;
  if (left.length === 0) return true;
  return left.start === right.start && (left.length === 1 || left.step === right.step);
}

/** A number of JavaScript, or undefined for what is no number. */
function asNumber(value: Value): number | bigint | undefined {
  if (isInteger(value)) return toInteger(value);
  return value instanceof Float ? value.value : undefined;
}

/** `left < right` and its kin. @throws PythonException TypeError for what has no order */
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

/** Negative, zero or positive; NaN compares to nothing; undefined where there is no order. */
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

/** Compares texts by code points, where JavaScript compares halves of them. */
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

/** `member in container`. @throws PythonException TypeError */
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

/** @throws PythonException TypeError */
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

/** How `sorted` is told to sort. */
export interface SortOptions {
  readonly key?: (item: Value) => Value;
  readonly reverse?: boolean;
}

/** `sorted(items)`: stable, also in reverse. @throws PythonException TypeError for what has no order */
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

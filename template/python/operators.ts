/** Implements Python's arithmetic operators. */

import { PythonException, typeError } from './exceptions.ts';
import { formatPercent } from './format-percent.ts';
import type { UsageMeter } from './limits.ts';
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
import { escapeHtml, typeName } from './repr.ts';
import { describeOperands } from './sequences.ts';
import {
  Bytes,
  Float,
  isInteger,
  isText,
  Markup,
  PySet,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from './values.ts';

/** A binary arithmetic operator. */
export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**';

/**
 * Applies a binary operator.
 * @throws PythonException TypeError, ZeroDivisionError, OverflowError; LimitExceeded
 */
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

/**
 * Implements `-value` and `+value`.
 * @throws PythonException TypeError
 */
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

/**
 * Divides integers of any size and rounds the result correctly. First computes an integer quotient
 * with more bits than a float has. If the division leaves a remainder, sets the last bit of this
 * quotient, so that rounding takes the remainder into account.
 */
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

/**
 * Computes the floor of a quotient. Like CPython, uses the remainder, because the quotient itself
 * may have been rounded up.
 */
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

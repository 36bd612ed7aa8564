/** jinja2's filters for numbers. */

import { PythonException, typeError, valueError } from '../python/exceptions.ts';
import { formatFixed, parseFloatText } from '../python/floats.ts';
import { truncateFloat } from '../python/format-percent.ts';
import type { UsageMeter } from '../python/limits.ts';
import {
  addIntegers,
  type Integer,
  integerPower,
  integerRemainder,
  negateInteger,
  parseInteger,
  toDouble,
  toInteger,
} from '../python/numbers.ts';
import { binaryOperation, unaryOperation } from '../python/operators.ts';
import { textRepr, typeName } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { asIndex } from '../python/subscripts.ts';
import {
  Bytes,
  Float,
  isInteger,
  isText,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { defineFilter, type FilterDefinitions, simpleFilter } from './definition.ts';

/**
 * Implements `int(value)`.
 * @throws PythonException ValueError, TypeError, OverflowError
 */
function toInt(value: Value): Integer {
  if (isInteger(value)) return toInteger(value);
  if (value instanceof Float) return truncateFloat(value.value);
  if (isText(value)) return textToInt(textOf(value), 10);
  if (value instanceof Bytes) return textToInt(Buffer.from(value.bytes).toString('latin1'), 10);
  if (value instanceof Undefined) throw value.error();
  throw typeError(
    `int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`,
  );
}

function textToInt(text: string, base: number): Integer {
  const value = parseInteger(text, base);
  if (value === undefined) {
    throw valueError(`invalid literal for int() with base ${base}: ${textRepr(text)}`);
  }
  return value;
}

/**
 * Implements `float(value)`.
 * @throws PythonException ValueError, TypeError
 */
export function toFloat(value: Value): number {
  if (value instanceof Float) return value.value;
  if (isInteger(value)) return toDouble(toInteger(value));
  if (value instanceof Undefined) throw value.error();
  if (!isText(value)) {
    throw typeError(`float() argument must be a string or a real number, not '${typeName(value)}'`);
  }
  const number = parseFloatText(textOf(value));
  if (number === undefined) {
    throw valueError(`could not convert string to float: ${textRepr(textOf(value))}`);
  }
  return number;
}

/** Whether Python's `except (TypeError, ValueError)` would catch an error. */
function isConversionError(error: unknown): boolean {
  return (
    error instanceof PythonException && (error.kind === 'TypeError' || error.kind === 'ValueError')
  );
}

function intFilter(value: Value, fallback: Value, base: Value): Value {
  try {
    return isText(value) ? textToInt(textOf(value), asIndex(base)) : toInt(value);
  } catch (error) {
    if (!isConversionError(error)) throw error;
  }
  try {
    return truncateFloat(toFloat(value));
  } catch (error) {
    if (!isConversionError(error)) throw error;
    return fallback;
  }
}

function floatFilter(value: Value, fallback: Value): Value {
  try {
    return new Float(toFloat(value));
  } catch (error) {
    if (!isConversionError(error)) throw error;
    return fallback;
  }
}

/**
 * Implements `round(value, precision)`.
 * @throws PythonException TypeError
 */
function round(value: Value, precision: number): Value {
  if (value instanceof Float) return new Float(roundFloat(value.value, precision));
  if (isInteger(value)) return roundInteger(toInteger(value), precision);
  throw typeError(`type ${typeName(value)} doesn't define __round__ method`);
}

function roundFloat(value: number, precision: number): number {
  if (!Number.isFinite(value) || precision > 323) return value;
  if (precision < -308) return value < 0 ? -0 : 0;
  if (precision >= 0) return Number(`${value < 0 ? '-' : ''}${formatFixed(value, precision)}`);
  const scale = 10 ** -precision;
  const scaled = Number(formatFixed(value / scale, 0)) * scale;
  return value < 0 ? -scaled : scaled;
}

/** Rounds half to even at a digit left of the decimal point. */
function roundInteger(value: Integer, precision: number): Integer {
  if (precision >= 0) return value;
  const unit = integerPower(10, -precision);
  const rest = integerRemainder(value, unit);
  const down = addIntegers(value, negateInteger(rest));
  const twice = BigInt(rest) * 2n - BigInt(unit);
  const isUp = twice > 0n || (twice === 0n && (BigInt(down) / BigInt(unit)) % 2n !== 0n);
  return isUp ? addIntegers(down, unit) : down;
}

function roundFilter(value: Value, precision: Value, method: Value, meter: UsageMeter): Value {
  if (method === 'common') return round(value, asIndex(precision));
  if (method !== 'ceil' && method !== 'floor') {
    throw new PythonException('FilterArgumentError', 'method must be common, ceil or floor');
  }
  const factor = binaryOperation(10, '**', precision, meter);
  const scaled = binaryOperation(value, '*', factor, meter);
  if (!(scaled instanceof Float) && !isInteger(scaled)) {
    throw typeError(`must be real number, not ${typeName(scaled)}`);
  }
  if (scaled instanceof Float) {
    const whole = truncateFloat(
      method === 'ceil' ? Math.ceil(scaled.value) : Math.floor(scaled.value),
    );
    return binaryOperation(whole, '/', factor, meter);
  }
  return binaryOperation(scaled, '/', factor, meter);
}

function fileSize(value: Value, isBinary: boolean): string {
  const bytes = toFloat(value);
  const base = isBinary ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${truncateFloat(bytes)} Bytes`;
  const units = 'KMGTPEZY';
  let index = 0;
  while (index < units.length - 1 && bytes >= base ** (index + 2)) index += 1;
  const letter = units.charAt(index);
  const unit = isBinary ? `${letter}iB` : `${index === 0 ? 'k' : letter}B`;
  return `${formatFixed((base * bytes) / base ** (index + 2), 1)} ${unit}`;
}

/** jinja2's number filters by name. */
export const numberFilters: FilterDefinitions = {
  abs: simpleFilter((value) => {
    if (value instanceof Float) return new Float(Math.abs(value.value));
    if (!isInteger(value)) throw typeError(`bad operand type for abs(): '${typeName(value)}'`);
    return toInteger(value) < 0 ? unaryOperation('-', value) : toInteger(value);
  }),
  filesizeformat: defineFilter(
    ['value', 'binary'],
    [false],
    (_context, value = null, isBinary = false) => fileSize(value, isTruthy(isBinary)),
  ),
  float: defineFilter(
    ['value', 'default'],
    [new Float(0)],
    (_context, value = null, fallback = null) => floatFilter(value, fallback),
  ),
  int: defineFilter(
    ['value', 'default', 'base'],
    [0, 10],
    (_context, value = null, fallback = 0, base = 10) => intFilter(value, fallback, base),
  ),
  round: defineFilter(
    ['value', 'precision', 'method'],
    [0, 'common'],
    ({ meter }, value = null, precision = 0, method = 'common') =>
      roundFilter(value, precision, method, meter),
  ),
};

/** jinja2's filters for numbers. */
import type { Meter } from '../limits.ts';
import { fixed, parseFloatText } from '../python/float.ts';
import {
  add,
  type Integer,
  negate,
  parseInteger,
  power,
  remainder,
  toDouble,
  toInteger,
} from '../python/integer.ts';
import { isTrue } from '../python/iterate.ts';
import { binary, unary } from '../python/operators.ts';
import { truncate } from '../python/percent-format.ts';
import { Raised, typeError, valueError } from '../python/raise.ts';
import { textRepr, typeName } from '../python/repr.ts';
import { asIndex } from '../python/slice.ts';
import {
  Bytes,
  Float,
  isInteger,
  isText,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { type Definitions, define, simple } from './definition.ts';

/** `int(value)`. @throws Raised ValueError, TypeError, OverflowError */
function toInt(value: Value): Integer {
  if (isInteger(value)) return toInteger(value);
  if (value instanceof Float) return truncate(value.value);
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

/** `float(value)`. @throws Raised ValueError, TypeError */
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

/** Whether Python's `except (TypeError, ValueError)` takes it. */
function isConversionError(error: unknown): boolean {
  return error instanceof Raised && (error.kind === 'TypeError' || error.kind === 'ValueError');
}

function intFilter(value: Value, fallback: Value, base: Value): Value {
  try {
    return isText(value) ? textToInt(textOf(value), asIndex(base)) : toInt(value);
  } catch (error) {
    if (!isConversionError(error)) throw error;
  }
  try {
    return truncate(toFloat(value));
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

/** `round(value, precision)`. @throws Raised TypeError */
function round(value: Value, precision: number): Value {
  if (value instanceof Float) return new Float(roundFloat(value.value, precision));
  if (isInteger(value)) return roundInteger(toInteger(value), precision);
  throw typeError(`type ${typeName(value)} doesn't define __round__ method`);
}

function roundFloat(value: number, precision: number): number {
  if (!Number.isFinite(value) || precision > 323) return value;
  if (precision < -308) return value < 0 ? -0 : 0;
  if (precision >= 0) return Number(`${value < 0 ? '-' : ''}${fixed(value, precision)}`);
  const scale = 10 ** -precision;
  const scaled = Number(fixed(value / scale, 0)) * scale;
  return value < 0 ? -scaled : scaled;
}

/** Half to even, at a place left of the point. */
function roundInteger(value: Integer, precision: number): Integer {
  if (precision >= 0) return value;
  const unit = power(10, -precision);
  const rest = remainder(value, unit);
  const down = add(value, negate(rest));
  const twice = BigInt(rest) * 2n - BigInt(unit);
  const isUp = twice > 0n || (twice === 0n && (BigInt(down) / BigInt(unit)) % 2n !== 0n);
  return isUp ? add(down, unit) : down;
}

function roundFilter(value: Value, precision: Value, method: Value, meter: Meter): Value {
  if (method === 'common') return round(value, asIndex(precision));
  if (method !== 'ceil' && method !== 'floor') {
    throw new Raised('FilterArgumentError', 'method must be common, ceil or floor');
  }
  const factor = binary(10, '**', precision, meter);
  const scaled = binary(value, '*', factor, meter);
  if (!(scaled instanceof Float) && !isInteger(scaled)) {
    throw typeError(`must be real number, not ${typeName(scaled)}`);
  }
  if (scaled instanceof Float) {
    const whole = truncate(method === 'ceil' ? Math.ceil(scaled.value) : Math.floor(scaled.value));
    return binary(whole, '/', factor, meter);
  }
  return binary(scaled, '/', factor, meter);
}

function fileSize(value: Value, isBinary: boolean): string {
  const bytes = toFloat(value);
  const base = isBinary ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${truncate(bytes)} Bytes`;
  const units = 'KMGTPEZY';
  let index = 0;
  while (index < units.length - 1 && bytes >= base ** (index + 2)) index += 1;
  const letter = units.charAt(index);
  const unit = isBinary ? `${letter}iB` : `${index === 0 ? 'k' : letter}B`;
  return `${fixed((base * bytes) / base ** (index + 2), 1)} ${unit}`;
}

/** The filters by name. */
export const numberFilters: Definitions = {
  abs: simple((value) => {
    if (value instanceof Float) return new Float(Math.abs(value.value));
    if (!isInteger(value)) throw typeError(`bad operand type for abs(): '${typeName(value)}'`);
    return toInteger(value) < 0 ? unary('-', value) : toInteger(value);
  }),
  filesizeformat: define(['value', 'binary'], [false], (_context, value = null, isBinary = false) =>
    fileSize(value, isTrue(isBinary)),
  ),
  float: define(['value', 'default'], [new Float(0)], (_context, value = null, fallback = null) =>
    floatFilter(value, fallback),
  ),
  int: define(
    ['value', 'default', 'base'],
    [0, 10],
    (_context, value = null, fallback = 0, base = 10) => intFilter(value, fallback, base),
  ),
  round: define(
    ['value', 'precision', 'method'],
    [0, 'common'],
    ({ meter }, value = null, precision = 0, method = 'common') =>
      roundFilter(value, precision, method, meter),
  ),
};

/** Implements `format(value, spec)`. */

import { trimEnd } from '#runtime';
import { PythonException, typeError, valueError } from './exceptions.ts';
import {
  floatRepr,
  formatExponential,
  formatFixed,
  formatGeneral,
  nonFiniteRepr,
} from './floats.ts';
import type { UsageMeter } from './limits.ts';
import { toDouble, toInteger } from './numbers.ts';
import { str, typeName } from './repr.ts';
import { charactersOf, textLength } from './text.ts';
import { Float, isInteger, isText, textOf, Undefined, type Value } from './values.ts';

/** A parsed format specification. */
interface Spec {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly alternate: boolean;
  readonly width: number;
  readonly grouping: string;
  readonly precision: number | undefined;
  readonly type: string;
}

const specForm =
  /^(?:(.)?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([bcdeEfFgGnosxX%])?$/su;
/**
 * Maximum width, in characters. A rendering does not reach it, because the limit on the length of
 * texts is lower.
 */
const maxWidth = 2 ** 31;

/**
 * Formats a value.
 * @throws PythonException ValueError, TypeError; LimitExceeded
 */
export function formatValue(value: Value, specText: string, meter: UsageMeter): string {
  if (specText === '') return str(value);
  if (value instanceof Undefined && !value.isStrict) throw unsupportedSpec(value);
  const isNumber = value instanceof Float || isInteger(value);
  if (!isNumber && !isText(value)) throw unsupportedSpec(value);
  const spec = parseSpec(specText, value, isNumber);
  if (isText(value)) return formatText(textOf(value), spec, meter);
  if (value instanceof Float) return formatFloat(value.value, spec, meter);
  if (isInteger(value)) return formatInteger(value, spec, meter);
  return str(value);
}

function unsupportedSpec(value: Value): PythonException {
  return typeError(`unsupported format string passed to ${typeName(value)}.__format__`);
}

/**
 * Parses a format specification.
 * @throws PythonException ValueError
 */
function parseSpec(text: string, value: Value, isNumber: boolean): Spec {
  const match = specForm.exec(text);
  if (match === null) {
    throw valueError(`Invalid format specifier '${text}' for object of type '${typeName(value)}'`);
  }
  const [, fill, align, sign = '', , alternate, zero, width, grouping = '', precision, type = ''] =
    match;
  const isPadded = zero !== undefined && align === undefined;
  return {
    fill: fill ?? (zero === undefined ? ' ' : '0'),
    align: align ?? (isNumber ? (isPadded ? '=' : '>') : '<'),
    sign,
    alternate: alternate !== undefined,
    width: bounded(width ?? '0'),
    grouping,
    precision: precision === undefined ? undefined : bounded(precision),
    type,
  };
}

function bounded(digits: string): number {
  const number = Number(digits);
  if (number >= maxWidth) throw valueError('Too many decimal digits in format string');
  return number;
}

function formatText(text: string, spec: Spec, meter: UsageMeter): string {
  if (spec.type !== '' && spec.type !== 's') throw unknownCode(spec.type, 'str');
  if (spec.sign !== '') throw valueError('Sign not allowed in string format specifier');
  if (spec.align === '=') throw valueError("'=' alignment not allowed in string format specifier");
  if (spec.grouping !== '') throw valueError(`Cannot specify '${spec.grouping}' with 's'.`);
  const cut =
    spec.precision === undefined ? text : charactersOf(text).slice(0, spec.precision).join('');
  return pad('', cut, spec, meter);
}

function unknownCode(type: string, of: string): PythonException {
  return valueError(`Unknown format code '${type}' for object of type '${of}'`);
}

function formatInteger(value: number | bigint | boolean, spec: Spec, meter: UsageMeter): string {
  if ('eEfFgG%'.includes(spec.type) && spec.type !== '') {
    return formatFloat(toDouble(toInteger(value)), spec, meter);
  }
  if (spec.type === 's') throw unknownCode('s', typeName(value));
  if (spec.precision !== undefined) {
    throw valueError('Precision not allowed in integer format specifier');
  }
  const integer = toInteger(value);
  const size = integer < 0 ? -integer : integer;
  if (spec.type === 'c') return pad('', codePoint(integer), spec, meter);
  const radix = { b: 2, o: 8, x: 16, X: 16 }[spec.type] ?? 10;
  const digits = spec.type === 'X' ? size.toString(16).toUpperCase() : size.toString(radix);
  const prefix = spec.alternate && radix !== 10 ? `0${spec.type}` : '';
  const grouped = group(digits, spec.grouping, radix === 10 ? 3 : 4);
  return pad(signOf(integer < 0, spec.sign) + prefix, grouped, spec, meter);
}

/**
 * Implements `chr()`.
 * @throws PythonException OverflowError
 */
export function codePoint(integer: number | bigint): string {
  if (integer < 0 || integer > 0x10ffff) {
    throw new PythonException('OverflowError', '%c arg not in range(0x110000)');
  }
  return String.fromCodePoint(Number(integer));
}

function formatFloat(value: number, spec: Spec, meter: UsageMeter): string {
  if ('bcdosxX'.includes(spec.type) && spec.type !== '') throw unknownCode(spec.type, 'float');
  const isNegative = value < 0 || Object.is(value, -0);
  meter.text(spec.precision ?? 0);
  const digits = floatDigits(Math.abs(value), spec);
  const [whole = ''] = /^\d*/.exec(digits) ?? [];
  const grouped = group(whole, spec.grouping, 3) + digits.slice(whole.length);
  return pad(signOf(isNegative, spec.sign), grouped, spec, meter);
}

function floatDigits(size: number, { type, precision, alternate }: Spec): string {
  const special = nonFiniteRepr(size);
  if (special !== undefined) {
    const text = type === 'E' || type === 'F' || type === 'G' ? special.toUpperCase() : special;
    return type === '%' ? `${text}%` : text;
  }
  const places = precision ?? 6;
  switch (type) {
    case 'e':
      return formatExponential(size, places);
    case 'E':
      return formatExponential(size, places).toUpperCase();
    case 'f':
    case 'F':
      return formatFixed(size, places) + (alternate && places === 0 ? '.' : '');
    case '%':
      return `${formatFixed(size * 100, places)}%`;
    case 'g':
    case 'n':
      return formatGeneral(size, places, alternate);
    case 'G':
      return formatGeneral(size, places, alternate).toUpperCase();
  }
  if (precision === undefined) return floatRepr(size);
  return shortFloat(size, precision);
}

/**
 * Formats a float without a type. The format is like `g`, but with at least one digit after the
 * point.
 */
function shortFloat(size: number, precision: number): string {
  const text = formatGeneral(size, precision, false);
  if (/[.e]/.test(text)) return text;
  if (text.length < Math.max(1, precision)) return `${text}.0`;
  const [number = '', exponent = ''] = formatExponential(size, text.length - 1).split('e');
  const short = number.includes('.') ? trimEnd(trimEnd(number, '0'), '.') : number;
  return `${short}e${exponent}`;
}

function signOf(isNegative: boolean, sign: string): string {
  if (isNegative) return '-';
  return sign === '-' ? '' : sign;
}

function group(digits: string, separator: string, size: number): string {
  if (separator === '') return digits;
  const parts: string[] = [];
  for (let end = digits.length; end > 0; end -= size) {
    parts.push(digits.slice(Math.max(0, end - size), end));
  }
  return parts.reverse().join(separator);
}

/**
 * Pads a text to the width.
 * @throws LimitExceeded
 */
function pad(prefix: string, text: string, spec: Spec, meter: UsageMeter): string {
  const missing = spec.width - textLength(prefix) - textLength(text);
  if (missing <= 0) return prefix + text;
  meter.text(missing);
  const { fill, align } = spec;
  if (spec.grouping !== '') meter.step(missing / 4);
  if (align === '=') return prefix + zeroFill(text, missing, spec);
  if (align === '<') return prefix + text + fill.repeat(missing);
  if (align === '>') return fill.repeat(missing) + prefix + text;
  const before = Math.floor(missing / 2);
  return fill.repeat(before) + prefix + text + fill.repeat(missing - before);
}

/** Pads a number with zeros. The zeros are grouped like the digits. */
function zeroFill(text: string, missing: number, { fill, grouping }: Spec): string {
  if (grouping === '' || fill !== '0') return fill.repeat(missing) + text;
  const [whole = ''] = /^[\d,_]*/.exec(text) ?? [];
  const rest = text.slice(whole.length);
  const width = whole.length + missing;
  const digits = whole.replaceAll(grouping, '');
  let count = digits.length;
  while (count + Math.floor((count - 1) / 3) < width) count += 1;
  return group(digits.padStart(count, '0'), grouping, 3) + rest;
}

/** Implements `text % values`. */

import { LimitExceeded, PythonException, typeError, valueError } from './exceptions.ts';
import {
  formatExponential,
  formatFixed,
  formatGeneral,
  nonFiniteRepr,
  parseFloatText,
} from './floats.ts';
import { codePoint } from './format.ts';
import type { UsageMeter } from './limits.ts';
import { type Integer, normalizeInteger, toDouble, toInteger } from './numbers.ts';
import { escapeHtml, repr, str, textRepr, typeName } from './repr.ts';
import { charactersOf, textLength } from './text.ts';
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

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly type: string;
}

const conversionForm =
  /%(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?([-#0 +]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.)?/gsu;

/**
 * Formats a text.
 * @throws PythonException TypeError, ValueError, KeyError; LimitExceeded
 */
export function formatPercent(format: string | Markup, values: Value, meter: UsageMeter): Value {
  const source = new Source(values);
  const isMarked = format instanceof Markup;
  const text = textOf(format).replace(
    conversionForm,
    (whole, key, flags, width, precision, type) => {
      if (type === undefined) throw valueError('incomplete format');
      if (type === '%') {
        if (whole !== '%%' && whole.startsWith('%(')) source.named(key);
        return '%';
      }
      if (key !== undefined) source.named(key);
      const conversion = readConversion(source, flags, width, precision, type);
      const piece = convertPercent(source.next(), conversion, isMarked, meter);
      meter.text(piece.length);
      return piece;
    },
  );
  source.finish();
  meter.text(textOf(format).length);
  return isMarked ? new Markup(text) : text;
}

function readConversion(
  source: Source,
  flags: string,
  width: string | undefined,
  precision: string | undefined,
  type: string,
): Conversion {
  const wide = width === '*' ? source.nextInteger() : Number(width ?? 0);
  const places = precision === '*' ? source.nextInteger() : Number(precision || 0);
  return {
    flags: wide < 0 ? `${flags}-` : flags,
    width: Math.abs(wide),
    precision: precision === undefined ? undefined : Math.max(0, places),
    type,
  };
}

/**
 * Values that the conversions of a `%` format consume: a tuple by position, a mapping by name, or a
 * single value.
 */
class Source {
  readonly #values: Value;
  readonly #items: readonly Value[];
  #index = 0;
  #chosen: Value | undefined;

  constructor(values: Value) {
    this.#values = values;
    this.#items = values instanceof Tuple ? values.items : [values];
  }

  /**
   * Selects the value with this name, so that the next conversion of the `%` format uses it.
   * @throws PythonException TypeError, KeyError
   */
  named(key: string): void {
    if (this.#values instanceof Undefined) throw this.#values.error();
    if (!(this.#values instanceof Dict)) throw typeError('format requires a mapping');
    const value = this.#values.get(key);
    if (value === undefined) throw new PythonException('KeyError', textRepr(key));
    this.#chosen = value;
  }

  /**
   * Returns the value that the next conversion of the `%` format consumes.
   * @throws PythonException TypeError
   */
  next(): Value {
    const chosen = this.#chosen;
    if (chosen !== undefined) {
      this.#chosen = undefined;
      this.#index = this.#items.length;
      return chosen;
    }
    const value = this.#items[this.#index];
    if (value === undefined) throw typeError('not enough arguments for format string');
    this.#index += 1;
    return value;
  }

  nextInteger(): number {
    const value = this.next();
    if (!isInteger(value)) throw typeError('* wants int');
    return Number(value);
  }

  /**
   * Checks that all values were used. As in CPython, each value that supports `value[key]` counts
   * as a mapping and is not checked, including lists, ranges, bytes and undefined values.
   */
  finish(): void {
    const values = this.#values;
    if (this.#index >= this.#items.length || Array.isArray(values)) return;
    if ([Dict, Undefined, Bytes, Range].some((type) => values instanceof type)) return;
    if (isPyObject(values) && values.item !== undefined) return;
    throw typeError('not all arguments converted during string formatting');
  }
}

function convertPercent(
  value: Value,
  conversion: Conversion,
  isMarked: boolean,
  meter: UsageMeter,
): string {
  const { type, precision } = conversion;
  switch (type) {
    case 's':
    case 'r':
    case 'a':
      return padText(cut(asText(value, type, isMarked), precision), conversion, meter);
    case 'c':
      return padText(asCharacter(value), conversion, meter);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      return integerConversion(value, conversion, meter);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return floatConversion(value, conversion, meter);
  }
  throw valueError(`unsupported format character '${type}'`);
}

function asText(value: Value, type: string, isMarked: boolean): string {
  if (type === 's') return isMarked ? escapeHtml(value) : str(value);
  const text = type === 'a' ? toAscii(repr(value)) : repr(value);
  return isMarked ? escapeHtml(text) : text;
}

/** Escapes non-ASCII characters in the result of `repr()`, like `ascii()`. */
export function toAscii(text: string): string {
  return text.replace(/[^\0-\x7f]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x100) return `\\x${code.toString(16)}`;
    const hex = code.toString(16);
    return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
  });
}

function cut(text: string, precision: number | undefined): string {
  return precision === undefined ? text : charactersOf(text).slice(0, precision).join('');
}

function asCharacter(value: Value): string {
  if (isInteger(value)) return codePoint(toInteger(value));
  if (isText(value) && textLength(textOf(value)) === 1) return textOf(value);
  throw typeError('%c requires int or char');
}

function integerConversion(value: Value, conversion: Conversion, meter: UsageMeter): string {
  const { type, flags, precision = 0 } = conversion;
  const integer = asInteger(value, type);
  meter.text(precision);
  const size = integer < 0 ? -integer : integer;
  const radix = { o: 8, x: 16, X: 16 }[type] ?? 10;
  const digits = size.toString(radix).padStart(precision, '0');
  const prefix = flags.includes('#') && radix !== 10 ? `0${type}` : '';
  const body = type === 'X' ? digits.toUpperCase() : digits;
  return padNumber(percentSign(integer < 0, flags) + prefix, body, conversion, meter);
}

/**
 * Converts a value to an integer.
 * @throws PythonException TypeError, OverflowError, ValueError
 */
function asInteger(value: Value, type: string): Integer {
  if (isInteger(value)) return toInteger(value);
  if (value instanceof Float && 'diu'.includes(type)) return truncateFloat(value.value);
  if (value instanceof Undefined && 'diu'.includes(type)) throw value.error();
  const wanted = 'diu'.includes(type) ? 'a real number is required' : 'an integer is required';
  throw typeError(`%${type} format: ${wanted}, not ${typeName(value)}`);
}

/**
 * Implements `int()` of a float.
 * @throws PythonException OverflowError, ValueError
 */
export function truncateFloat(value: number): Integer {
  if (Number.isNaN(value)) throw valueError('cannot convert float NaN to integer');
  if (!Number.isFinite(value)) {
    throw new PythonException('OverflowError', 'cannot convert float infinity to integer');
  }
  return normalizeInteger(BigInt(Math.trunc(value)));
}

function floatConversion(value: Value, conversion: Conversion, meter: UsageMeter): string {
  const { type, flags, precision = 6 } = conversion;
  const double = asDouble(value);
  meter.text(precision);
  const digits =
    nonFiniteRepr(Math.abs(double)) ?? finiteDigits(Math.abs(double), type, precision, flags);
  const isNegative = double < 0 || Object.is(double, -0);
  const body = type === type.toUpperCase() ? digits.toUpperCase() : digits;
  return padNumber(percentSign(isNegative, flags), body, conversion, meter);
}

function finiteDigits(size: number, type: string, precision: number, flags: string): string {
  switch (type.toLowerCase()) {
    case 'e':
      return formatExponential(size, precision);
    case 'f':
      return formatFixed(size, precision);
    default:
      return formatGeneral(size, precision, flags.includes('#'));
  }
}

/**
 * Converts a value to a float.
 * @throws PythonException TypeError, ValueError
 */
function asDouble(value: Value): number {
  if (value instanceof Float) return value.value;
  if (isInteger(value)) return toDouble(toInteger(value));
  if (value instanceof Undefined) throw value.error();
  if (isText(value) && parseFloatText(textOf(value)) !== undefined) {
    throw typeError('must be real number, not str');
  }
  throw typeError(`must be real number, not ${typeName(value)}`);
}

function percentSign(isNegative: boolean, flags: string): string {
  if (isNegative) return '-';
  if (flags.includes('+')) return '+';
  return flags.includes(' ') ? ' ' : '';
}

/**
 * Checks a width against the limit of characters.
 * @throws LimitExceeded
 */
function checkWidth(width: number, meter: UsageMeter): void {
  if (width > 2 ** 31) throw new LimitExceeded('characters', 2 ** 31);
  meter.text(width);
}

function padText(text: string, { flags, width }: Conversion, meter: UsageMeter): string {
  const missing = width - textLength(text);
  if (missing <= 0) return text;
  checkWidth(width, meter);
  return flags.includes('-') ? text + ' '.repeat(missing) : ' '.repeat(missing) + text;
}

function padNumber(
  prefix: string,
  body: string,
  conversion: Conversion,
  meter: UsageMeter,
): string {
  const { flags, width } = conversion;
  const missing = width - prefix.length - body.length;
  if (missing <= 0) return prefix + body;
  checkWidth(width, meter);
  if (flags.includes('-')) return prefix + body + ' '.repeat(missing);
  return flags.includes('0')
    ? prefix + '0'.repeat(missing) + body
    : ' '.repeat(missing) + prefix + body;
}

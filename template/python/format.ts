/** `format(value, spec)`, `text % values` and `text.format(…)`. */

import { LimitExceeded, PythonException, typeError, valueError } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import {
  floatRepr,
  formatExponential,
  formatFixed,
  formatGeneral,
  type Integer,
  nonFiniteRepr,
  normalizeInteger,
  parseFloatText,
  toDouble,
  toInteger,
} from './numbers.ts';
import { charactersOf, textLength } from './text.ts';
import {
  type Arguments,
  Dict,
  escapeHtml,
  Float,
  isInteger,
  isText,
  Markup,
  repr,
  str,
  Tuple,
  textOf,
  textRepr,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

/** A format specification, taken apart. */
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
/** Wider than any text may be; the meter says no before that. */
const maxWidth = 2 ** 31;

/** @throws PythonException ValueError, TypeError; LimitExceeded */
function formatValue(value: Value, specText: string, meter: UsageMeter): string {
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

/** @throws PythonException ValueError */
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

/** `chr()`. @throws PythonException OverflowError */
function codePoint(integer: number | bigint): string {
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
  const [, whole = '', rest = ''] = /^(\d*)(.*)$/.exec(digits) ?? [];
  const grouped = group(whole, spec.grouping, 3) + rest;
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

/** Without a type: like `g`, but always with a digit after the point. */
function shortFloat(size: number, precision: number): string {
  const text = formatGeneral(size, precision, false);
  if (/[.e]/.test(text)) return text;
  return text.length >= Math.max(1, precision)
    ? formatExponential(size, text.length - 1).replace(/\.?0+e/, 'e')
    : `${text}.0`;
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

/** @throws LimitExceeded */
function pad(prefix: string, text: string, spec: Spec, meter: UsageMeter): string {
  const missing = spec.width - textLength(prefix) - textLength(text);
  if (missing <= 0) return prefix + text;
  meter.text(missing);
  const { fill, align } = spec;
  if (align === '=') return prefix + zeroFill(text, missing, spec);
  if (align === '<') return prefix + text + fill.repeat(missing);
  if (align === '>') return fill.repeat(missing) + prefix + text;
  const before = Math.floor(missing / 2);
  return fill.repeat(before) + prefix + text + fill.repeat(missing - before);
}

/** Zeros in front of grouped digits are grouped too. */
function zeroFill(text: string, missing: number, { fill, grouping }: Spec): string {
  if (grouping === '' || fill !== '0') return fill.repeat(missing) + text;
  const [, whole = '', rest = ''] = /^([\d,_]*)(.*)$/.exec(text) ?? [];
  const width = whole.length + missing;
  const digits = whole.replaceAll(grouping, '');
  let count = digits.length;
  while (count + Math.floor((count - 1) / 3) < width) count += 1;
  return group(digits.padStart(count, '0'), grouping, 3) + rest;
}

// `text % values`.

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly type: string;
}

const conversionForm =
  /%(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?([-#0 +]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.)?/gsu;

/** @throws PythonException TypeError, ValueError, KeyError; LimitExceeded */
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

/** Where the values come from: a tuple in order, a mapping by name, or one value alone. */
class Source {
  readonly #values: Value;
  readonly #items: readonly Value[];
  #index = 0;
  #chosen: Value | undefined;

  constructor(values: Value) {
    this.#values = values;
    this.#items = values instanceof Tuple ? values.items : [values];
  }

  /** @throws PythonException TypeError, KeyError */
  named(key: string): void {
    if (this.#values instanceof Undefined) throw this.#values.error();
    if (!(this.#values instanceof Dict)) throw typeError('format requires a mapping');
    const value = this.#values.get(key);
    if (value === undefined) throw new PythonException('KeyError', textRepr(key));
    this.#chosen = value;
  }

  /** @throws PythonException TypeError */
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

  /** What has items by key counts as a mapping, as in CPython: a list, and what is undefined. */
  finish(): void {
    const values = this.#values;
    if (this.#index >= this.#items.length) return;
    if (values instanceof Dict || values instanceof Undefined || Array.isArray(values)) return;
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

/** `ascii()` of what `repr()` gave. */
function toAscii(text: string): string {
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

/** @throws PythonException TypeError, OverflowError, ValueError */
function asInteger(value: Value, type: string): Integer {
  if (isInteger(value)) return toInteger(value);
  if (value instanceof Float && 'diu'.includes(type)) return truncateFloat(value.value);
  if (value instanceof Undefined && 'diu'.includes(type)) throw value.error();
  const wanted = 'diu'.includes(type) ? 'a real number is required' : 'an integer is required';
  throw typeError(`%${type} format: ${wanted}, not ${typeName(value)}`);
}

/** `int()` of a float. @throws PythonException OverflowError, ValueError */
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

/** @throws PythonException TypeError, ValueError */
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

/** @throws LimitExceeded */
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

// `text.format(…)`, with attributes and items looked up as templates do.

/** How a field's attributes and items are found. */
export interface FieldLookup {
  attribute(value: Value, name: string): Value;
  item(value: Value, key: Value): Value;
}

/** What a formatting needs besides the text. */
export interface FormatOptions {
  readonly args: Arguments;
  readonly lookup: FieldLookup;
  readonly meter: UsageMeter;
  /** Whether values are escaped: the text is markup. */
  readonly isMarked: boolean;
}

/** @throws PythonException ValueError, KeyError, IndexError; LimitExceeded */
export function formatFields(format: string, options: FormatOptions): string {
  return new Formatter(options).run(format, 2);
}

interface Field {
  readonly name: string;
  readonly conversion: string | undefined;
  readonly spec: string;
  readonly end: number;
}

class Formatter {
  readonly #options: FormatOptions;
  #automatic: number | undefined;
  #isManual = false;

  constructor(options: FormatOptions) {
    this.#options = options;
  }

  run(format: string, depth: number): string {
    if (depth < 0) throw valueError('Max string recursion exceeded');
    let result = '';
    let place = 0;
    while (place < format.length) {
      const character = format.charAt(place);
      if (character !== '{' && character !== '}') {
        result += character;
        place += 1;
      } else if (format.charAt(place + 1) === character) {
        result += character;
        place += 2;
      } else {
        if (character === '}') throw valueError("Single '}' encountered in format string");
        const field = readField(format, place + 1);
        result += this.#format(field, depth);
        place = field.end;
      }
    }
    this.#options.meter.text(result.length);
    return result;
  }

  #format({ name, conversion, spec }: Field, depth: number): string {
    const { meter, isMarked } = this.#options;
    const value = convertField(this.#value(name), conversion);
    const text = formatValue(value, this.run(spec, depth - 1), meter);
    return isMarked ? escapeHtml(typeof value === 'string' ? text : value) : text;
  }

  #value(name: string): Value {
    const { lookup } = this.#options;
    const [first = ''] = /^[^.[]*/.exec(name) ?? [];
    let value = this.#first(first);
    const rest = name.slice(first.length);
    const steps = /\.([^.[]*)|\[([^\]]*)\]/y;
    while (steps.lastIndex < rest.length) {
      const match = steps.exec(rest);
      const key = match?.[1] ?? match?.[2] ?? '';
      if (match === null || key === '') throw valueError('Empty attribute in format string');
      if (match[1] !== undefined) value = lookup.attribute(value, key);
      else value = lookup.item(value, /^\d+$/.test(key) ? Number(key) : key);
    }
    return value;
  }

  #first(name: string): Value {
    const { positional, named } = this.#options.args;
    if (name !== '' && !/^\d+$/.test(name)) {
      const value = named.get(name);
      if (value === undefined) throw new PythonException('KeyError', textRepr(name));
      return value;
    }
    const value = positional[this.#index(name)];
    if (value === undefined) {
      throw new PythonException(
        'IndexError',
        'Replacement index out of range for positional args tuple',
      );
    }
    return value;
  }

  #index(name: string): number {
    if (name === '') {
      if (this.#isManual)
        throw valueError(
          'cannot switch from manual field specification to automatic field numbering',
        );
      this.#automatic = (this.#automatic ?? -1) + 1;
      return this.#automatic;
    }
    if (this.#automatic !== undefined)
      throw valueError(
        'cannot switch from manual field specification to automatic field numbering',
      );
    this.#isManual = true;
    return Number(name);
  }
}

/** @throws PythonException ValueError */
function readField(format: string, start: number): Field {
  let depth = 1;
  let end = start;
  while (end < format.length && depth > 0) {
    const character = format.charAt(end);
    if (character === '{') depth += 1;
    if (character === '}') depth -= 1;
    end += 1;
  }
  if (depth > 0)
    throw valueError(
      start >= format.length
        ? "Single '{' encountered in format string"
        : "expected '}' before end of string",
    );
  const inner = format.slice(start, end - 1);
  const [, name = '', conversion, spec = ''] =
    /^((?:[^[:!{}]|\[[^\]]*\])*)(?:!([^:]*))?(?::(.*))?$/s.exec(inner) ?? [];
  if (name === '' && inner !== '' && !/^[!:]/.test(inner)) {
    throw valueError("unexpected '{' in field name");
  }
  return { name, conversion, spec, end };
}

/** @throws PythonException ValueError */
function convertField(value: Value, conversion: string | undefined): Value {
  switch (conversion) {
    case undefined:
      return value;
    case 's':
      return str(value);
    case 'r':
      return repr(value);
    case 'a':
      return toAscii(repr(value));
    default:
      throw valueError(`Unknown conversion specifier ${conversion}`);
  }
}

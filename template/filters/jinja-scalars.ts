/** jinja2's filters for text and numbers. */

import { PythonException, typeError, valueError } from '../python/exceptions.ts';
import { formatPercent, truncateFloat } from '../python/format.ts';
import type { UsageMeter } from '../python/limits.ts';
import {
  addIntegers,
  formatFixed,
  type Integer,
  integerPower,
  integerRemainder,
  negateInteger,
  parseFloatText,
  parseInteger,
  toDouble,
  toInteger,
} from '../python/numbers.ts';
import { binaryOperation, unaryOperation } from '../python/operators.ts';
import { asIndex, isTruthy, iterate, lengthOf } from '../python/sequences.ts';
import { replaceText, stringMethods } from '../python/string-methods.ts';
import { capitalize, charactersOf, splitLines, textLength, wrapLine } from '../python/text.ts';
import {
  Bytes,
  Dict,
  escapeHtml,
  Float,
  isInteger,
  isText,
  Markup,
  str,
  Tuple,
  textOf,
  textRepr,
  typeName,
  Undefined,
  type Value,
} from '../python/values.ts';
import {
  attributeGetter,
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
  softText,
  variadicFilter,
} from './definition.ts';

/** Text that keeps its mark. */
function likeOriginal(value: Value, change: (text: string) => string): Value {
  const text = change(softText(value));
  return value instanceof Markup ? new Markup(text) : text;
}

function stringMethod(name: string, context: FilterContext, text: string, ...args: Value[]): Value {
  const found = stringMethods.get(name);
  return found === undefined ? text : found.run(text, context.meter, ...args);
}

/** Only what has `splitlines` and `+` can be indented. @throws PythonException TypeError */
function indent(
  context: FilterContext,
  value: Value,
  width: Value,
  first: Value,
  blank: Value,
): Value {
  if (!isText(value)) {
    if (!Array.isArray(value)) binaryOperation(value, '+', '\n', context.meter);
    throw new PythonException(
      'AttributeError',
      `'${typeName(value)}' object has no attribute 'splitlines'`,
    );
  }
  const indention = isText(width) ? textOf(width) : ' '.repeat(spaces(context, width));
  const lines = splitLines(`${textOf(value)}\n`);
  context.meter.text(lines.length * indention.length);
  const isBlank = isTruthy(blank);
  const [head = '', ...rest] = lines;
  const text = [head, ...rest.map((line) => (isBlank || line !== '' ? indention + line : line))];
  const result = (isTruthy(first) ? indention : '') + text.join('\n');
  return value instanceof Markup ? new Markup(result) : result;
}

function spaces({ meter }: FilterContext, width: Value): number {
  const count = Math.max(0, asIndex(width));
  meter.text(count);
  return count;
}

function truncate(
  value: Value,
  [length, killWords, end, leeway]: readonly [Value, Value, Value, Value],
): Value {
  const most = asIndex(length);
  const tail = softText(end);
  const slack = leeway === null ? 5 : asIndex(leeway);
  if (most < textLength(tail)) {
    throw new PythonException(
      'AssertionError',
      `expected length >= ${textLength(tail)}, got ${most}`,
    );
  }
  if (slack < 0) throw new PythonException('AssertionError', `expected leeway >= 0, got ${slack}`);
  if (!isText(value)) {
    if (lengthOf(value) <= most + slack) return value;
    if (isTruthy(killWords)) throw typeError('only text can be cut');
    throw new PythonException(
      'AttributeError',
      `'${typeName(value)}' object has no attribute 'rsplit'`,
    );
  }
  const all = charactersOf(textOf(value));
  if (all.length <= most + slack) return value;
  const cut = all.slice(0, most - textLength(tail)).join('');
  const space = cut.lastIndexOf(' ');
  const kept = isTruthy(killWords) || space < 0 ? cut : cut.slice(0, space);
  return value instanceof Markup ? new Markup(kept + escapeHtml(end)) : kept + tail;
}

function join(context: FilterContext, value: Value, separator: Value, attribute: Value): string {
  const between = softText(separator);
  const get = attribute === null ? undefined : attributeGetter(context, attribute);
  const texts: string[] = [];
  for (const item of iterateItems(value, context)) {
    const text = str(get === undefined ? item : get(item));
    context.meter.text(text.length + between.length);
    texts.push(text);
  }
  return texts.join(between);
}

/** `urllib.parse.quote` with `/` left alone, or for a query. */
function urlQuote(value: Value, forQuery: boolean): string {
  const quoted = encodeURIComponent(softText(value)).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return forQuery ? quoted.replaceAll('%20', '+') : quoted.replaceAll('%2F', '/');
}

function urlEncode(value: Value, context: FilterContext): Value {
  if (isText(value) || !isIterable(value)) return urlQuote(value, false);
  const pairs = value instanceof Dict ? [...value.entries()] : pairsOf(value, context);
  return pairs.map(([k, v]) => `${urlQuote(k, true)}=${urlQuote(v, true)}`).join('&');
}

function pairsOf(value: Value, context: FilterContext): (readonly [Value, Value])[] {
  return Array.from(iterateItems(value, context), (pair) => {
    const [key, item, ...more] = iterateItems(pair, context);
    if (key === undefined || item === undefined || more.length > 0) {
      throw valueError('each item must be a pair');
    }
    return [key, item] as const;
  });
}

/** Whether `iter(value)` works. */
export function isIterable(value: Value): boolean {
  try {
    iterate(value);
    return true;
  } catch (error) {
    if (error instanceof PythonException && error.kind === 'TypeError') return false;
    throw error;
  }
}

function title(text: string): string {
  return text
    .split(/([-\s({[<]+)/)
    .filter((word) => word !== '')
    .map((word) => {
      const [first = ''] = word;
      return first.toUpperCase() + word.slice(first.length).toLowerCase();
    })
    .join('');
}

function wordWrap(context: FilterContext, value: Value, args: readonly Value[]): Value {
  const [width = 79, breakLong = true, wrapString = null, breakHyphens = true] = args;
  if (!isText(value)) {
    if (value instanceof Undefined) throw value.error();
    throw new PythonException(
      'AttributeError',
      `'${typeName(value)}' object has no attribute 'splitlines'`,
    );
  }
  const lines = splitLines(textOf(value)).map((line) => {
    // Every hyphen may be looked at to the end of its run.
    context.meter.step(line.length + (line.split('-').length * line.length) / 1000);
    return wrapLine(line, {
      width: asIndex(width),
      breakLongWords: isTruthy(breakLong),
      breakOnHyphens: isTruthy(breakHyphens),
    });
  });
  const joint = wrapString === null ? '\n' : softText(wrapString);
  return lines.map((wrapped) => wrapped.join(joint)).join(joint);
}

/** The filters by name. */
export const textFilters: FilterDefinitions = {
  capitalize: simpleFilter((value) => likeOriginal(value, capitalize)),
  center: defineFilter(['value', 'width'], [80], (context, value = null, width = 80) =>
    stringMethod('center', context, softText(value), width, ' '),
  ),
  e: simpleFilter((value) => new Markup(escapeHtml(value))),
  escape: simpleFilter((value) => new Markup(escapeHtml(value))),
  forceescape: simpleFilter((value) => new Markup(escapeHtml(str(value)))),
  format: variadicFilter((context, { positional, named }) => {
    const [value = null, ...args] = positional;
    if (args.length > 0 && named.size > 0) {
      throw new PythonException(
        'FilterArgumentError',
        "can't handle positional and keyword arguments at the same time",
      );
    }
    const format = isText(value) ? value : str(value);
    return formatPercent(format, named.size > 0 ? new Dict(named) : new Tuple(args), context.meter);
  }),
  indent: defineFilter(
    ['s', 'width', 'first', 'blank'],
    [4, false, false],
    (context, s = null, width = 4, first = false, blank = false) =>
      indent(context, s, width, first, blank),
  ),
  join: defineFilter(
    ['value', 'd', 'attribute'],
    ['', null],
    (context, value = null, d = '', attribute = null) => join(context, value, d, attribute),
  ),
  lower: simpleFilter((value) => likeOriginal(value, (text) => text.toLowerCase())),
  replace: defineFilter(
    ['s', 'old', 'new', 'count'],
    [null],
    (context, s = null, old = null, by = null, count = null) =>
      replaceText(str(s), str(old), str(by), count === null ? -1 : asIndex(count), context.meter),
  ),
  safe: simpleFilter((value) => new Markup(str(value))),
  string: simpleFilter((value) => (isText(value) ? value : str(value))),
  striptags: simpleFilter((value, { meter }) => {
    const source = softText(value);
    // Every bracket may be looked at to the end of the text.
    meter.step((source.split('<').length * source.length) / 1000);
    return source
      .replace(/<!--.*?-->/gs, '')
      .replace(/<.*?>/gs, '')
      .split(/\s+/)
      .filter((word) => word !== '')
      .join(' ')
      .replace(/&(amp|lt|gt|quot|#39|#34);/g, (_, name) => unescaped[name] ?? '');
  }),
  title: simpleFilter((value) => title(softText(value))),
  trim: defineFilter(['value', 'chars'], [null], (context, value = null, chars = null) => {
    const text = stringMethod('strip', context, softText(value), chars);
    return value instanceof Markup && typeof text === 'string' ? new Markup(text) : text;
  }),
  truncate: defineFilter(
    ['s', 'length', 'killwords', 'end', 'leeway'],
    [255, false, '...', null],
    (_context, s = null, length = 255, killWords = false, end = '...', leeway = null) =>
      truncate(s, [length, killWords, end, leeway]),
  ),
  upper: simpleFilter((value) => likeOriginal(value, (text) => text.toUpperCase())),
  urlencode: simpleFilter(urlEncode),
  wordcount: simpleFilter((value) => softText(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0),
  wordwrap: defineFilter(
    ['s', 'width', 'break_long_words', 'wrapstring', 'break_on_hyphens'],
    [79, true, null, true],
    (context, s = null, ...args) => wordWrap(context, s, args),
  ),
  xmlattr: defineFilter(['d', 'autospace'], [true], (_context, d = null, autospace = true) =>
    xmlAttributes(d, isTruthy(autospace)),
  ),
};

const unescaped: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  '#34': '"',
};

function xmlAttributes(value: Value, withSpace: boolean): Value {
  if (value instanceof Undefined) throw value.error();
  if (!(value instanceof Dict)) {
    throw new PythonException(
      'AttributeError',
      `'${typeName(value)}' object has no attribute 'items'`,
    );
  }
  const attributes: string[] = [];
  for (const [key, item] of value.entries()) {
    if (item === null || item instanceof Undefined) continue;
    if (/[\t-\r /<>=]/.test(softText(key))) {
      throw new PythonException('ValueError', 'Invalid character in attribute name');
    }
    attributes.push(`${escapeHtml(key)}="${escapeHtml(item)}"`);
  }
  const text = attributes.join(' ');
  return withSpace && text !== '' ? ` ${text}` : text;
}

// jinja2's filters for numbers.

/** `int(value)`. @throws PythonException ValueError, TypeError, OverflowError */
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

/** `float(value)`. @throws PythonException ValueError, TypeError */
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

/** `round(value, precision)`. @throws PythonException TypeError */
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

/** Half to even, at a place left of the point. */
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

/** The filters by name. */
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

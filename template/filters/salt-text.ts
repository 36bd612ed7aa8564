/** Salt's filters for text [salt/utils/jinja.py, stringutils.py, hashutils.py, dateutils.py]. */

import { isUtf8 } from 'node:buffer';
import { createHash, createHmac } from 'node:crypto';
import { PythonException, typeError, valueError } from '../python/exceptions.ts';
import { parseFloatText } from '../python/floats.ts';
import { truncateFloat } from '../python/format-percent.ts';
import type { UsageMeter } from '../python/limits.ts';
import { parseInteger } from '../python/numbers.ts';
import { compileRegex, regexSubject } from '../python/regex.ts';
import { str, typeName } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { strftime, toLocal } from '../python/strftime.ts';
import { charactersOf, isWhitespace } from '../python/text.ts';
import { capitalize, isLower, isUpper } from '../python/text-case.ts';
import {
  Bytes,
  Dict,
  Float,
  isInteger,
  isText,
  type Markup,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
} from './definition.ts';

/** Matches the date formats that are accepted in templates [salt/utils/dateutils.py]. */
const dateForm =
  /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(?:Z|\+00:?00)?$/;

/**
 * Implements `|strftime`. The date is `None` for the current time, a number of seconds since 1970, or
 * a text in ISO 8601. As in Salt, the current time and numbers are printed in local time.
 * @throws PythonException
 */
function formatTime(context: FilterContext, date: Value = null, format: Value = '%Y-%m-%d'): Value {
  return strftime(readDate(context, date), str(format));
}

/**
 * Parses a date.
 * @throws PythonException ValueError
 */
function readDate(context: FilterContext, date: Value): Date {
  if (date === null) return toLocal(context.now());
  if (isInteger(date)) return dateOf(Number(date), date);
  if (date instanceof Float) return dateOf(date.value, date);
  if (!isText(date)) throw new PythonException('TypeError', 'a date must be text or a number');
  const text = textOf(date).trim();
  if (/^\d+(\.\d+)?$/.test(text) && text.length > 8) return dateOf(Number(text), text);
  const match = dateForm.exec(text);
  if (match === null) throw valueError('invalid date');
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  return new Date(Date.UTC(year, month - 1, day, hour, minute, second));
}

/**
 * Converts seconds since 1970 to a date.
 * @throws PythonException RuntimeError outside the years 1 to 9999
 */
function dateOf(seconds: number, given: Value): Date {
  const date = toLocal(new Date(seconds * 1000));
  const year = date.getUTCFullYear();
  if (year >= 1 && year <= 9999) return date;
  throw new PythonException('RuntimeError', `Unable to parse ${str(given)}`);
}

/**
 * Returns the bytes of a value.
 * @throws PythonException TypeError
 */
function bytesOf(value: Value): Uint8Array {
  if (value instanceof Undefined) throw value.error();
  if (isText(value)) return Buffer.from(textOf(value), 'utf8');
  if (value instanceof Bytes) return value.bytes;
  throw typeError(`expected str, bytes, or bytearray not ${typeName(value)}`);
}

function digest(algorithm: string): FilterDefinition {
  return simpleFilter((value, { meter }) => {
    const bytes = bytesOf(value);
    meter.step(1 + bytes.length / 10);
    return createHash(algorithm).update(bytes).digest('hex');
  });
}

function search(atStart: boolean): FilterDefinition {
  return defineFilter(
    ['txt', 'rgx', 'ignorecase', 'multiline'],
    [false, false],
    ({ meter }, text = null, pattern = null, ignoreCase = false, multiline = false) => {
      const flags = { ignoreCase: isTruthy(ignoreCase), multiline: isTruthy(multiline) };
      const regex = compileRegex(pattern, flags, meter);
      return regex.groups(regexSubject(text, meter), atStart);
    },
  );
}

/** Implements `shlex.quote`. */
function shellQuote(value: Value): string {
  if (!isTruthy(value)) return "''";
  const text = textOf(asText(value));
  return /[^\w@%+=:,./-]/u.test(text) || /[^\0-\x7f]/.test(text)
    ? `'${text.replaceAll("'", `'"'"'`)}'`
    : text;
}

function asText(value: Value): string | Markup {
  if (value instanceof Undefined) throw value.error();
  if (!isText(value))
    throw typeError(`expected string or bytes-like object, got '${typeName(value)}'`);
  return value;
}

/** Returns a UUID version 5 in Salt's namespace. */
function uuid(value: Value): string {
  const space = Buffer.from('91633ebf1c865e33935a28061f4b480e', 'hex');
  const hash = createHash('sha1').update(space).update(bytesOf(value)).digest().subarray(0, 16);
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x50, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  return hash.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function toNumber(value: Value): Value {
  if (!isText(value)) {
    if (value instanceof Float) return truncateFloat(value.value);
    if (typeof value === 'boolean') return Number(value);
    if (typeof value === 'number' || typeof value === 'bigint') return value;
    if (value instanceof Undefined) throw value.error();
    throw typeError(
      `int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`,
    );
  }
  const integer = parseInteger(textOf(value));
  if (integer !== undefined) return integer;
  const float = parseFloatText(textOf(value));
  return float === undefined ? value : new Float(float);
}

/**
 * Returns the letters of a text. A list of texts is accepted too, as in Python: each text then
 * counts as one letter.
 * @throws PythonException
 */
function lettersOf(value: Value): string[] {
  if (value instanceof Undefined) throw value.error();
  if (isText(value)) return charactersOf(textOf(value));
  if (value instanceof Dict) throw new PythonException('KeyError', '0');
  if (!Array.isArray(value) && !(value instanceof Tuple)) {
    throw typeError(`'${typeName(value)}' object is not subscriptable`);
  }
  return (Array.isArray(value) ? value : value.items).map((item) => {
    if (isText(item)) return textOf(item);
    throw new PythonException(
      'AttributeError',
      `'${typeName(item)}' object has no attribute 'lower'`,
    );
  });
}

function camelToSnake(value: Value): string {
  const letters = lettersOf(value);
  const [first] = letters;
  if (first === undefined) throw new PythonException('IndexError', 'string index out of range');
  let result = first.toLowerCase();
  for (const [index, letter] of letters.entries()) {
    if (index === 0) continue;
    const before = letters[index - 1] ?? '';
    const after = letters[index + 1] ?? '';
    if (isUpper(letter) && (isLower(before) || isLower(after))) result += '_';
    result += letter.toLowerCase();
  }
  return result;
}

function snakeToCamel(value: Value, upper: Value): string {
  if (value instanceof Undefined) throw value.error();
  if (!isText(value)) {
    throw new PythonException(
      'AttributeError',
      `'${typeName(value)}' object has no attribute 'split'`,
    );
  }
  const [first = '', ...words] = textOf(value).split('_');
  return (isTruthy(upper) ? capitalize(first) : first) + words.map(capitalize).join('');
}

function humanToBytes(size: Value, unit: Value, metric: Value): Value {
  const text = str(size).trim();
  const [begin = '', number = ''] = /^([0-9.]*)\s*/.exec(text) ?? [];
  const given = text.slice(begin.length);
  if (given.includes('\n')) {
    throw new PythonException('AttributeError', "'NoneType' object has no attribute 'group'");
  }
  const name = (given === '' ? str(unit) : given).toLowerCase();
  const value = parseInteger(number) ?? parseFloatText(number);
  if (value === undefined) return 0;
  const isMetric = /^[kmgtpezy]b$/.test(name);
  if (!isMetric && !/^(b|[kmgtpezy](ib)?)$/.test(name)) return 0;
  const power = 'bkmgtpezy'.indexOf(name.charAt(0));
  return truncateFloat(Number(value) * (isMetric && isTruthy(metric) ? 1000 : 1024) ** power);
}

const specialInRegex = /[\t\n\v\f\r !"#$%&'()*+,\-./:;<=>?@[\\\]^`{|}~]/g;

/** Implements `re.escape`. */
function escapeRegex(text: string): string {
  return text.replace(specialInRegex, (c) => (/[!"%',/:;<=>@`]/.test(c) ? c : `\\${c}`));
}

function isUnclosedSet(part: string): boolean {
  return part.startsWith('[') && !part.endsWith(']');
}

function expressionMatches(value: string, expression: string, meter: UsageMeter): boolean {
  const glob = expression
    .split(/(\*|\?|\[[^\]]+\]?)/)
    .flatMap((part) => (isUnclosedSet(part) ? part.split(/([*?])/) : part))
    .map((part) =>
      part === '*'
        ? '(?s:.*)'
        : part === '?'
          ? '(?s:.)'
          : part.startsWith('[') && part.endsWith(']')
            ? part.replace('[!', '[^')
            : escapeRegex(part),
    )
    .join('');
  return [glob, expression].some((pattern) => {
    try {
      const flags = { ignoreCase: false, multiline: false };
      return compileRegex(`(?:${pattern})\\Z`, flags, meter).matchesAtStart(value);
    } catch (error) {
      if (error instanceof PythonException) return false;
      throw error;
    }
  });
}

function whitelisted(
  { meter }: FilterContext,
  value: Value,
  whitelist: Value,
  blacklist: Value,
): boolean {
  const list = (given: Value): string[] => {
    if (!isTruthy(given)) return [];
    return isText(given)
      ? [textOf(given)]
      : Array.isArray(given)
        ? given.map(str)
        : given instanceof Tuple
          ? given.items.map(str)
          : [];
  };
  const allowed = list(whitelist);
  const denied = list(blacklist);
  // An undefined value matches no expression.
  if (value instanceof Undefined) return allowed.length === 0;
  const text = str(value);
  if (denied.some((expression) => expressionMatches(text, expression, meter))) return false;
  return (
    allowed.length === 0 || allowed.some((expression) => expressionMatches(text, expression, meter))
  );
}

function joinPath(context: FilterContext, parts: readonly Value[]): string {
  const [root = '', ...rest] = parts.map((part) => textOf(asText(part)));
  context.meter.step(parts.length);
  const joined = [root, ...rest.map((part) => part.replace(/^\/+/, ''))]
    .filter((part) => part !== '')
    .join('/');
  const isAbsolute = joined.startsWith('/');
  const segments: string[] = [];
  for (const segment of joined.split('/')) {
    if (segment === '' || segment === '.') continue;
    if (segment === '..' && segments.length > 0 && segments.at(-1) !== '..') segments.pop();
    else if (segment !== '..' || !isAbsolute) segments.push(segment);
  }
  return (isAbsolute ? '/' : '') + segments.join('/') || '.';
}

/**
 * Decodes base64 like `binascii.a2b_base64`: ignores invalid characters and stops at the padding.
 * @throws PythonException binascii.Error
 */
function decodeBase64(text: string): Buffer {
  let digits = '';
  let padding = 0;
  for (const character of text) {
    if (/[A-Za-z0-9+/]/.test(character)) {
      digits += character;
      padding = 0;
    } else if (character === '=' && digits.length % 4 >= 2) {
      padding += 1;
      if ((digits.length % 4) + padding >= 4) return Buffer.from(digits, 'base64');
    }
  }
  const rest = digits.length % 4;
  if (rest === 0) return Buffer.from(digits, 'base64');
  const message =
    rest === 1
      ? `Invalid base64-encoded string: number of data characters (${digits.length}) cannot be 1 more than a multiple of 4`
      : 'Incorrect padding';
  throw new PythonException('Error', message);
}

/** Salt's text filters by name. */
export const saltTextFilters: FilterDefinitions = {
  base64_decode: simpleFilter((value) => {
    const bytes = decodeBase64(Buffer.from(bytesOf(value)).toString('latin1'));
    return isUtf8(bytes) ? bytes.toString('utf8') : new Bytes(bytes);
  }),
  base64_encode: simpleFilter((value) => Buffer.from(bytesOf(value)).toString('base64')),
  check_whitelist_blacklist: defineFilter(
    ['value', 'whitelist', 'blacklist'],
    [null, null],
    (context, value = null, whitelist = null, blacklist = null) =>
      whitelisted(context, value, whitelist, blacklist),
  ),
  contains_whitespace: simpleFilter((value, context) => {
    for (const item of iterateItems(value, context)) {
      if (!isText(item)) {
        throw new PythonException(
          'AttributeError',
          `'${typeName(item)}' object has no attribute 'isspace'`,
        );
      }
      if (isWhitespace(textOf(item))) return true;
    }
    return false;
  }),
  date_format: defineFilter(['date', 'format'], [null, '%Y-%m-%d'], formatTime),
  hmac: defineFilter(
    ['string', 'shared_secret', 'challenge_hmac'],
    [],
    (_context, text = null, secret = null, challenge = null) =>
      createHmac('sha256', bytesOf(secret)).update(bytesOf(text)).digest('base64') ===
      str(challenge),
  ),
  hmac_compute: defineFilter(
    ['string', 'shared_secret'],
    [],
    (_context, text = null, secret = null) =>
      createHmac('sha256', bytesOf(secret)).update(bytesOf(text)).digest('hex'),
  ),
  human_to_bytes: defineFilter(
    ['size', 'default_unit', 'handle_metric'],
    ['B', false],
    (_context, size = null, unit = 'B', metric = false) => humanToBytes(size, unit, metric),
  ),
  is_hex: simpleFilter((value) => {
    return isText(value) && parseInteger(textOf(value), 16) !== undefined;
  }),
  md5: digest('md5'),
  path_join: {
    names: [],
    defaults: [],
    runAll: (context, { positional }) => joinPath(context, positional),
  },
  quote: simpleFilter(shellQuote),
  regex_escape: simpleFilter((value) => escapeRegex(textOf(asText(value)))),
  regex_match: search(true),
  regex_replace: defineFilter(
    ['txt', 'rgx', 'val', 'ignorecase', 'multiline'],
    [false, false],
    ({ meter }, text = null, pattern = null, by = null, ignoreCase = false, multiline = false) => {
      const flags = { ignoreCase: isTruthy(ignoreCase), multiline: isTruthy(multiline) };
      const regex = compileRegex(pattern, flags, meter);
      return regex.replace(regexSubject(text, meter), textOf(asText(by)));
    },
  ),
  regex_search: search(false),
  sha1: digest('sha1'),
  sha256: digest('sha256'),
  sha512: digest('sha512'),
  skip: simpleFilter(() => ''),
  str_to_num: simpleFilter(toNumber),
  strftime: defineFilter(['date', 'format'], [null, '%Y-%m-%d'], formatTime),
  to_bytes: simpleFilter((value) => new Bytes(bytesOf(value))),
  to_camelcase: defineFilter(
    ['snake_input', 'uppercamel'],
    [false],
    (_context, value = null, upper = false) => snakeToCamel(value, upper),
  ),
  to_num: simpleFilter(toNumber),
  to_snake_case: simpleFilter(camelToSnake),
  uuid: simpleFilter(uuid),
};

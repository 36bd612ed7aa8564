/** Methods of `str`. */

import { PythonException, typeError, valueError } from './exceptions.ts';
import { defineMethod, type Method, type Methods } from './functions.ts';
import type { UsageMeter } from './limits.ts';
import { isPrintable, typeName } from './repr.ts';
import { iterate } from './sequences.ts';
import { asIndex } from './subscripts.ts';
import {
  characterIndex,
  charactersOf,
  splitLines,
  splitWords,
  stripEnd,
  stripStart,
  textBetween,
  textLength,
} from './text.ts';
import {
  capitalize,
  characterTests,
  isLower,
  isTitle,
  isUpper,
  swapCase,
  toTitle,
} from './text-case.ts';
import { Bytes, Dict, isText, Tuple, textOf, Undefined, type Value } from './values.ts';

type TextMethod = Method<string>;

/**
 * Returns a text argument.
 * @throws PythonException TypeError
 */
function asText(value: Value): string {
  if (isText(value)) return textOf(value);
  if (value instanceof Undefined) throw value.error();
  throw typeError(`must be str, not ${typeName(value)}`);
}

function plain(run: (text: string) => Value): TextMethod {
  return defineMethod([], [], (text, meter) => {
    meter.text(text.length);
    return run(text);
  });
}

function textPredicate(answer: (text: string) => boolean): TextMethod {
  return defineMethod([], [], (text) => text !== '' && answer(text));
}

/** Returns the start and end of a search, from the arguments of a method. */
function range(text: string, start: Value, end: Value): { from: number; to: number } {
  const length = textLength(text);
  const clip = (value: Value, fallback: number): number => {
    if (value === null) return fallback;
    const at = asIndex(value);
    return Math.min(length, Math.max(0, at < 0 ? at + length : at));
  };
  const from = start === null ? 0 : asIndex(start);
  return { from: from > length ? length + 1 : clip(start, 0), to: clip(end, length) };
}

function search(isLast: boolean, isRequired: boolean): TextMethod {
  return defineMethod(['sub', 'start', 'end'], [null, null], (text, meter, sub, start, end) => {
    meter.step(1 + text.length / 100);
    const { from, to } = range(text, start ?? null, end ?? null);
    const part = textBetween(text, from, to);
    const wanted = asText(sub ?? null);
    const found = from > to ? -1 : isLast ? part.lastIndexOf(wanted) : part.indexOf(wanted);
    if (found < 0 && isRequired) throw valueError('substring not found');
    return found < 0 ? -1 : from + characterIndex(part, found);
  });
}

function affix(has: (text: string, part: string) => boolean): TextMethod {
  return defineMethod(
    ['prefix', 'start', 'end'],
    [null, null],
    (text, _meter, parts, start, end) => {
      const { from, to } = range(text, start ?? null, end ?? null);
      if (from > to) return false;
      const part = textBetween(text, from, to);
      const wanted = parts instanceof Tuple ? parts.items : [parts ?? null];
      return wanted.some((one) => has(part, asText(one)));
    },
  );
}

function stripped(atStart: boolean, atEnd: boolean): TextMethod {
  return defineMethod(['chars'], [null], (text, meter, chars = null) => {
    meter.text(text.length);
    if (chars === null) {
      const start = atStart ? stripStart(text) : text;
      return atEnd ? stripEnd(start) : start;
    }
    const set = new Set(charactersOf(asText(chars)));
    const list = charactersOf(text);
    let from = 0;
    let to = list.length;
    while (atStart && from < to && set.has(list[from] ?? '')) from += 1;
    while (atEnd && to > from && set.has(list[to - 1] ?? '')) to -= 1;
    return list.slice(from, to).join('');
  });
}

function justified(share: (missing: number, width: number) => number): TextMethod {
  return defineMethod(['width', 'fillchar'], [' '], (text, meter, width, fillChar) => {
    const wide = asIndex(width ?? null);
    const fill = asText(fillChar ?? ' ');
    if (textLength(fill) !== 1) {
      throw typeError('The fill character must be exactly one character long');
    }
    const missing = wide - textLength(text);
    if (missing <= 0) return text;
    meter.text(wide);
    const before = share(missing, wide);
    return fill.repeat(before) + text + fill.repeat(missing - before);
  });
}

/**
 * Returns the size of the padding before a centred text. If the total padding is odd, CPython's
 * rule decides whether the part before the text is longer.
 */
function half(missing: number, width: number): number {
  return Math.floor(missing / 2) + (missing & width & 1);
}

function partition(isLast: boolean): TextMethod {
  return defineMethod(['sep'], [], (text, meter, separator) => {
    meter.text(text.length);
    const wanted = asText(separator ?? null);
    if (wanted === '') throw valueError('empty separator');
    const found = isLast ? text.lastIndexOf(wanted) : text.indexOf(wanted);
    if (found < 0) return new Tuple(isLast ? ['', '', text] : [text, '', '']);
    return new Tuple([text.slice(0, found), wanted, text.slice(found + wanted.length)]);
  });
}

function split(fromEnd: boolean): TextMethod {
  return defineMethod(['sep', 'maxsplit'], [null, -1], (text, meter, sep = null, maxSplit = -1) => {
    meter.text(text.length);
    const limit = asIndex(maxSplit);
    const parts = splitText(text, sep === null ? null : asText(sep), limit, fromEnd);
    meter.step(parts.length);
    return parts;
  });
}

function splitText(
  text: string,
  separator: string | null,
  limit: number,
  fromEnd: boolean,
): string[] {
  if (separator === null) return fromEnd ? splitWordsFromEnd(text, limit) : splitWords(text, limit);
  if (separator === '') throw valueError('empty separator');
  const parts = text.split(separator);
  if (limit < 0 || parts.length <= limit + 1) return parts;
  if (fromEnd) {
    const cut = parts.length - limit;
    return [parts.slice(0, cut).join(separator), ...parts.slice(cut)];
  }
  return [...parts.slice(0, limit), parts.slice(limit).join(separator)];
}

function splitWordsFromEnd(text: string, limit: number): string[] {
  const reversed = splitWords(charactersOf(text).reverse().join(''), limit);
  return reversed.map((word) => charactersOf(word).reverse().join('')).reverse();
}

/**
 * Implements `separator.join(items)`.
 * @throws PythonException TypeError
 */
function joinTexts(separator: string, items: Value, meter: UsageMeter): string {
  const texts: string[] = [];
  const iterator = iterate(items);
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
    const { value } = next;
    if (!isText(value)) {
      throw typeError(
        `sequence item ${texts.length}: expected str instance, ${typeName(value)} found`,
      );
    }
    meter.step();
    meter.text(textOf(value).length + separator.length);
    texts.push(textOf(value));
  }
  return texts.join(separator);
}

/** Implements `text.replace(old, new, count)`. */
export function replaceText(
  text: string,
  old: string,
  by: string,
  count: number,
  meter: UsageMeter,
): string {
  if (count === 0) return text;
  const most = count < 0 ? Number.POSITIVE_INFINITY : count;
  const parts = old === '' ? ['', ...charactersOf(text), ''] : text.split(old);
  const joints = Math.min(most, parts.length - 1);
  meter.text(text.length + joints * by.length);
  if (joints === parts.length - 1) return parts.join(by);
  return [...parts.slice(0, joints), parts.slice(joints).join(old)].join(by);
}

function expandTabs(text: string, size: number, meter: UsageMeter): string {
  let column = 0;
  let result = '';
  for (const character of text) {
    if (character !== '\t') {
      result += character;
      column = /[\n\r]/.test(character) ? 0 : column + 1;
      continue;
    }
    const missing = size > 0 ? size - (column % size) : 0;
    meter.text(missing);
    result += ' '.repeat(missing);
    column += missing;
  }
  return result;
}

function encode(text: string, encoding: string, errors: string): Bytes {
  const name = encoding.toLowerCase().replaceAll(/[-_ ]/g, '');
  if (name === 'utf8') return new Bytes(Buffer.from(text, 'utf8'));
  const highest = { ascii: 0x7f, usascii: 0x7f, latin1: 0xff, iso88591: 0xff }[name];
  if (highest === undefined)
    throw new PythonException('LookupError', `unknown encoding: ${encoding}`);
  const codes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code <= highest) codes.push(code);
    else if (errors === 'replace') codes.push(0x3f);
    else if (errors !== 'ignore') {
      throw new PythonException(
        'UnicodeEncodeError',
        `'${encoding}' codec can't encode a character`,
      );
    }
  }
  return new Bytes(Uint8Array.from(codes));
}

function zeroFill(text: string, width: number, meter: UsageMeter): string {
  const missing = width - textLength(text);
  if (missing <= 0) return text;
  meter.text(width);
  const [sign = ''] = /^[+-]/.exec(text) ?? [];
  return sign + '0'.repeat(missing) + text.slice(sign.length);
}

/** Implements `str.translate` with a dict from numbers to texts, numbers or `None`. */
function translate(text: string, table: Value): string {
  if (!(table instanceof Dict)) throw typeError(`'${typeName(table)}' object is not subscriptable`);
  let result = '';
  for (const character of text) {
    const by = table.get(character.codePointAt(0) ?? 0);
    if (by === undefined) result += character;
    else if (typeof by === 'number') result += String.fromCodePoint(by);
    else if (by !== null) result += asText(by);
  }
  return result;
}

function count(text: string, sub: string, start: Value, end: Value): number {
  const { from, to } = range(text, start, end);
  if (from > to) return 0;
  const part = textBetween(text, from, to);
  return sub === '' ? textLength(part) + 1 : part.split(sub).length - 1;
}

const questions = Object.entries(characterTests).map(
  ([name, ask]) => [name, textPredicate(ask)] as const,
);

/** Methods of `str`, except `format` and `format_map`, which look up attributes. */
export const stringMethods: Methods<string> = new Map<string, TextMethod>([
  ...questions,
  ['capitalize', plain(capitalize)],
  ['casefold', plain((text) => text.toLowerCase().replaceAll('ß', 'ss'))],
  ['center', justified(half)],
  [
    'count',
    defineMethod(['sub', 'start', 'end'], [null, null], (text, meter, sub, start, end) => {
      meter.text(text.length);
      return count(text, asText(sub ?? null), start ?? null, end ?? null);
    }),
  ],
  [
    'encode',
    defineMethod(['encoding', 'errors'], ['utf-8', 'strict'], (text, meter, encoding, errors) => {
      meter.text(text.length);
      return encode(text, asText(encoding ?? 'utf-8'), asText(errors ?? 'strict'));
    }),
  ],
  ['endswith', affix((text, part) => text.endsWith(part))],
  [
    'expandtabs',
    defineMethod(['tabsize'], [8], (text, meter, size) =>
      expandTabs(text, asIndex(size ?? 8), meter),
    ),
  ],
  ['find', search(false, false)],
  ['index', search(false, true)],
  ['isascii', defineMethod([], [], (text) => /^[\0-\x7f]*$/.test(text))],
  ['islower', textPredicate(isLower)],
  ['isprintable', defineMethod([], [], (text) => charactersOf(text).every(isPrintable))],
  ['istitle', textPredicate(isTitle)],
  ['isupper', textPredicate(isUpper)],
  [
    'join',
    defineMethod(['iterable'], [], (text, meter, items) => joinTexts(text, items ?? null, meter)),
  ],
  ['ljust', justified(() => 0)],
  ['lower', plain((text) => text.toLowerCase())],
  ['lstrip', stripped(true, false)],
  ['partition', partition(false)],
  [
    'removeprefix',
    defineMethod(['prefix'], [], (text, _meter, prefix) => {
      const part = asText(prefix ?? null);
      return text.startsWith(part) ? text.slice(part.length) : text;
    }),
  ],
  [
    'removesuffix',
    defineMethod(['suffix'], [], (text, _meter, suffix) => {
      const part = asText(suffix ?? null);
      return part !== '' && text.endsWith(part) ? text.slice(0, -part.length) : text;
    }),
  ],
  [
    'replace',
    defineMethod(['old', 'new', 'count'], [-1], (text, meter, old, by, most) =>
      replaceText(text, asText(old ?? null), asText(by ?? null), asIndex(most ?? -1), meter),
    ),
  ],
  ['rfind', search(true, false)],
  ['rindex', search(true, true)],
  ['rjust', justified((missing) => missing)],
  ['rpartition', partition(true)],
  ['rsplit', split(true)],
  ['rstrip', stripped(false, true)],
  ['split', split(false)],
  [
    'splitlines',
    defineMethod(['keepends'], [false], (text, meter, keep) => {
      const lines = splitLines(text, keep !== false && keep !== 0 && keep !== null);
      meter.text(text.length);
      meter.step(lines.length);
      return lines;
    }),
  ],
  ['startswith', affix((text, part) => text.startsWith(part))],
  ['strip', stripped(true, true)],
  ['swapcase', plain(swapCase)],
  ['title', plain(toTitle)],
  [
    'translate',
    defineMethod(['table'], [], (text, _meter, table) => translate(text, table ?? null)),
  ],
  ['upper', plain((text) => text.toUpperCase())],
  [
    'zfill',
    defineMethod(['width'], [], (text, meter, width) =>
      zeroFill(text, asIndex(width ?? null), meter),
    ),
  ],
]);

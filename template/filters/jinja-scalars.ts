/** jinja2's filters for text and numbers. */

import { PythonException, typeError, valueError } from '../python/exceptions.ts';
import { formatPercent } from '../python/format-percent.ts';
import { binaryOperation } from '../python/operators.ts';
import { escapeHtml, str, typeName } from '../python/repr.ts';
import { isTruthy, iterate, lengthOf } from '../python/sequences.ts';
import { replaceText, stringMethods } from '../python/string-methods.ts';
import { asIndex } from '../python/subscripts.ts';
import { charactersOf, splitLines, textLength } from '../python/text.ts';
import { capitalize } from '../python/text-case.ts';
import { wrapLine } from '../python/text-wrap.ts';
import { Dict, isText, Markup, Tuple, textOf, Undefined, type Value } from '../python/values.ts';
import { attributeGetter } from './attribute-getter.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
  softText,
  variadicFilter,
} from './definition.ts';

/** Changes the text of a value. The type stays the same: `Markup` remains `Markup`. */
function likeOriginal(value: Value, change: (text: string) => string): Value {
  const text = change(softText(value));
  return value instanceof Markup ? new Markup(text) : text;
}

function stringMethod(name: string, context: FilterContext, text: string, ...args: Value[]): Value {
  const found = stringMethods.get(name);
  return found === undefined ? text : found.run(text, context.meter, ...args);
}

/**
 * Indents the lines of a value. As in Python, a value that is not text must have `splitlines` and
 * support `+`.
 * @throws PythonException TypeError
 */
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
    if (isTruthy(killWords)) throw typeError('truncate() can only cut text if killwords is true');
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

/** Implements `urllib.parse.quote`. In a path, `/` is not quoted; in a query, it is. */
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
      throw valueError('urlencode() requires pairs of a name and a value');
    }
    return [key, item] as const;
  });
}

/** Whether `iter(value)` succeeds. */
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
    // In the worst case, the expression scans each run of hyphens once for each of its hyphens.
    context.meter.step(line.length + (line.split('-').length * line.length) / 1000);
    const options = {
      width: asIndex(width),
      breakLongWords: isTruthy(breakLong),
      breakOnHyphens: isTruthy(breakHyphens),
    };
    return wrapLine(line, options, context.meter);
  });
  const joint = wrapString === null ? '\n' : softText(wrapString);
  const joints = lines.reduce((count, wrapped) => count + Math.max(wrapped.length, 1), 0);
  context.meter.text(joint.length * joints);
  return lines.map((wrapped) => wrapped.join(joint)).join(joint);
}

/** jinja2's text filters by name. */
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
    meter.step(source.length / 1000);
    return source
      .replace(/<!--.*?(-->|$)/gs, (tag, end) => (end === '' ? tag : ''))
      .replace(/<[^>]*(>?)/g, (tag, end) => (end === '' ? tag : ''))
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

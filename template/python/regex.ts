/** Python's regular expressions for Salt's filters: an implementation of `re` based on RE2. */

import { RE2JS } from 're2js';
import { PythonException, typeError, UnsupportedFeature } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import { linearDialect } from './regex-dialect.ts';
import { matchingSteps } from './regex-size.ts';
import { translatePythonRegex } from './regex-translation.ts';
import { typeName } from './repr.ts';
import { isText, Tuple, textOf, Undefined, type Value } from './values.ts';

/** Flags of a regular expression that Salt's template filters can set. */
export interface RegexFlags {
  readonly ignoreCase: boolean;
  readonly multiline: boolean;
}

/** A compiled expression. */
export class PythonRegex {
  readonly #regex: RE2JS;
  readonly #meter: UsageMeter;
  readonly #stepsOf: (length: number) => number;

  constructor(regex: RE2JS, meter: UsageMeter, stepsOf: (length: number) => number) {
    this.#regex = regex;
    this.#meter = meter;
    this.#stepsOf = stepsOf;
  }

  /**
   * Implements `bool(re.match(text))`.
   * @throws LimitExceeded
   */
  matchesAtStart(text: string): boolean {
    this.#count(text);
    return this.#regex.matcher(text).lookingAt();
  }

  /** Returns the groups of `re.match` or `re.search`, or `None` if the text does not match. */
  groups(text: string, atStart: boolean): Value {
    this.#count(text);
    const matcher = this.#regex.matcher(text);
    const isFound = atStart ? matcher.lookingAt() : matcher.find();
    if (!isFound) return null;
    return new Tuple(
      Array.from({ length: matcher.groupCount() }, (_, i) => matcher.group(i + 1) ?? null),
    );
  }

  /**
   * Implements `re.sub`.
   * @throws PythonException of Python's class `re.error` if the template has a bad escape or refers
   * to a group number that does not exist; PythonException IndexError for an unknown group name;
   * LimitExceeded
   */
  replace(text: string, template: string): string {
    const meter = this.#meter;
    this.#count(text);
    const matcher = this.#regex.matcher(text);
    const replacement = readReplacement(template);
    let result = '';
    let at = 0;
    while (matcher.find()) {
      meter.step();
      result += text.slice(at, matcher.start());
      for (const part of replacement) {
        const piece = typeof part === 'string' ? part : this.#group(matcher, part.group);
        meter.text(piece.length);
        result += piece;
      }
      at = matcher.end();
    }
    return result + text.slice(at);
  }

  #count(text: string): void {
    this.#meter.spend('matching of a regular expression', this.#stepsOf(text.length));
  }

  #group(matcher: ReturnType<RE2JS['matcher']>, group: string): string {
    const number = /^\d+$/.test(group) ? Number(group) : this.#regex.namedGroups()[group];
    if (number === undefined) throw new PythonException('IndexError', 'unknown group name');
    if (number > matcher.groupCount())
      throw new PythonException('error', 'invalid group reference');
    return matcher.group(number) ?? '';
  }
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\\': '\\',
};

function readReplacement(template: string): (string | { readonly group: string })[] {
  const parts: (string | { readonly group: string })[] = [];
  const form = /\\(?:g<(\w+)>|([1-9]\d?)|(.))|[^\\]+|\\/gs;
  for (const [whole, named, numbered, letter] of template.matchAll(form)) {
    const group = named ?? numbered;
    if (group !== undefined) parts.push({ group });
    else if (letter === undefined) parts.push(whole);
    else parts.push(replacementEscape(letter));
  }
  return parts;
}

function replacementEscape(letter: string): string {
  const known = escapes[letter];
  if (known !== undefined) return known;
  if (letter === '0') return '\0';
  if (/[A-Za-z]/.test(letter)) throw new PythonException('error', `bad escape \\${letter}`);
  return `\\${letter}`;
}

/** Maximum number of compiled expressions that are cached in one rendering. */
const maxKept = 64;
const kept = new WeakMap<UsageMeter, Map<string, PythonRegex>>();

/**
 * Compiles an expression, or returns it from the cache of the rendering.
 * @throws PythonException of Python's class `re.error` for an invalid expression;
 * UnsupportedFeature for lookaround and back-references; LimitExceeded
 */
export function compileRegex(pattern: Value, flags: RegexFlags, meter: UsageMeter): PythonRegex {
  if (pattern instanceof Undefined) throw pattern.error();
  if (!isText(pattern)) throw typeError('first argument must be string or compiled pattern');
  const text = textOf(pattern);
  const known = kept.get(meter) ?? new Map<string, PythonRegex>();
  kept.set(meter, known);
  const name = `${flags.ignoreCase ? 'i' : ''}${flags.multiline ? 'm' : ''}/${text}`;
  const found = known.get(name);
  if (found !== undefined) return found;
  const regex = compileText(text, flags, meter);
  if (known.size >= maxKept) known.clear();
  known.set(name, regex);
  return regex;
}

function compileText(
  text: string,
  { ignoreCase, multiline }: RegexFlags,
  meter: UsageMeter,
): PythonRegex {
  try {
    const translation = translatePythonRegex(text, linearDialect, { multiline, meter });
    if (translation.needsBacktracking) {
      throw new UnsupportedFeature(
        'lookaround and back-references in regular expressions are not supported',
      );
    }
    const flags = ignoreCase || translation.ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
    const regex = RE2JS.compile(translation.source, flags);
    return new PythonRegex(regex, meter, matchingSteps(translation.size));
  } catch (cause) {
    if (!(cause instanceof Error) || !/Syntax|RE2JS/.test(cause.name)) throw cause;
    throw new PythonException('error', `invalid regular expression: ${cause.message}`, {
      cause,
    });
  }
}

/**
 * Checks that a value is text that a regular expression can be applied to, and returns the text.
 * @throws PythonException TypeError
 */
export function regexSubject(value: Value, meter: UsageMeter): string {
  if (!isText(value)) {
    throw typeError(`expected string or bytes-like object, got '${typeName(value)}'`);
  }
  meter.step(1 + textOf(value).length / 10);
  return textOf(value);
}

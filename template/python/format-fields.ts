/** Implements `text.format(…)`. Attributes and items are looked up as in templates. */

import { PythonException, valueError } from './exceptions.ts';
import { formatValue } from './format.ts';
import { toAscii } from './format-percent.ts';
import type { UsageMeter } from './limits.ts';
import { escapeHtml, repr, str, textRepr } from './repr.ts';
import type { Arguments, Value } from './values.ts';

/**
 * Access to the attributes and items in the fields of a format text, such as `{user.name}` and
 * `{user[name]}`.
 */
export interface FieldLookup {
  attribute(value: Value, name: string): Value;
  item(value: Value, key: Value): Value;
}

/** Arguments that are inserted into a format text, and settings of the formatter. */
export interface FormatOptions {
  readonly args: Arguments;
  readonly lookup: FieldLookup;
  readonly meter: UsageMeter;
  /** Whether the text is markup. If so, the inserted values are escaped. */
  readonly isMarked: boolean;
}

/**
 * Formats a text.
 * @throws PythonException ValueError, KeyError, IndexError; LimitExceeded
 */
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

/**
 * Parses a field.
 * @throws PythonException ValueError
 */
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

/**
 * Applies the conversion of a field.
 * @throws PythonException ValueError
 */
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

/** Implements `json.dumps` and `json.loads`. */

import { exactNumber } from '#runtime/json.ts';
import { sortValues } from './comparison.ts';
import { typeError, valueError } from './exceptions.ts';
import { floatRepr } from './floats.ts';
import type { RecursionGuard, UsageMeter } from './limits.ts';
import { integerText, parseInteger } from './numbers.ts';
import { str, typeName } from './repr.ts';
import { Dict, Float, isInteger, isText, Tuple, textOf, Undefined, type Value } from './values.ts';

/** Converts a number token of JSON as Python does: `1.0` becomes a float. */
export function jsonNumber(token: string): number | bigint | Float {
  const number = exactNumber(token);
  return /[.eE]/.test(token) && Number.isSafeInteger(number) ? new Float(Number(number)) : number;
}

/** Options for writing JSON. */
export interface JsonOptions {
  readonly sortKeys: boolean;
  /** Spaces per level. `undefined` for a single line. */
  readonly indent: number | undefined;
  /** Whether non-ASCII characters are escaped (`ensure_ascii`). Default: true. */
  readonly ensureAscii?: boolean;
  readonly meter: UsageMeter;
}

/**
 * Writes a value as JSON.
 * @throws PythonException TypeError for values without a JSON form; LimitExceeded
 */
export function dumpJson(value: Value, options: JsonOptions): string {
  return new JsonWriter(options).write(value, 0);
}

class JsonWriter {
  readonly #options: JsonOptions;
  readonly #walk: RecursionGuard;

  constructor(options: JsonOptions) {
    this.#options = options;
    this.#walk = options.meter.walk();
  }

  write(value: Value, level: number): string {
    const text = this.#scalar(value);
    if (text !== undefined) {
      this.#options.meter.text(text.length);
      return text;
    }
    if (Array.isArray(value)) return this.#list(value, value, level);
    if (value instanceof Tuple) return this.#list(value, value.items, level);
    if (value instanceof Dict) return this.#dict(value, level);
    if (value instanceof Undefined) throw value.error();
    throw typeError(`Object of type ${typeName(value)} is not JSON serializable`);
  }

  #scalar(value: Value): string | undefined {
    if (value === null) return 'null';
    if (typeof value === 'boolean') return String(value);
    if (isInteger(value)) return integerText(value);
    if (isText(value)) return this.#text(textOf(value));
    if (!(value instanceof Float)) return undefined;
    if (Number.isNaN(value.value)) return 'NaN';
    if (!Number.isFinite(value.value)) return value.value > 0 ? 'Infinity' : '-Infinity';
    return floatRepr(value.value);
  }

  #list(owner: object, items: readonly Value[], level: number): string {
    if (items.length === 0) return '[]';
    return this.#walk.into(owner, () => {
      const parts = items.map((item) => this.write(item, level + 1));
      return `[${this.#lines(parts, level)}]`;
    });
  }

  #dict(dict: Dict, level: number): string {
    if (dict.size === 0) return '{}';
    return this.#walk.into(dict, () => {
      const keys = this.#options.sortKeys
        ? sortValues(dict.keys(), {}, this.#options.meter)
        : dict.keys();
      const parts = keys.map((key) => {
        const text = this.#text(this.#key(key));
        return `${text}: ${this.write(dict.get(key) ?? null, level + 1)}`;
      });
      return `{${this.#lines(parts, level)}}`;
    });
  }

  #key(key: Value): string {
    if (isText(key)) return textOf(key);
    const text = this.#scalar(key);
    if (text !== undefined) return text;
    throw typeError(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
  }

  #text(text: string): string {
    return this.#options.ensureAscii === false ? JSON.stringify(text) : asciiText(text);
  }

  #lines(parts: readonly string[], level: number): string {
    const { indent, meter } = this.#options;
    if (indent === undefined) return parts.join(', ');
    // Check the length before the text is created. The engine itself fails only at much greater
    // lengths.
    meter.text(indent * (level + 1) * (parts.length + 1));
    const inner = `\n${' '.repeat(indent * (level + 1))}`;
    return `${inner}${parts.join(`,${inner}`)}\n${' '.repeat(indent * level)}`;
  }
}

/** Writes text as JSON with all non-ASCII characters escaped. */
function asciiText(text: string): string {
  return JSON.stringify(text).replace(/[\x7f-\uffff]/g, (unit) =>
    unit === '\x7f' ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/**
 * Parses JSON.
 * @throws PythonException ValueError
 */
export function loadJson(text: string, meter: UsageMeter): Value {
  meter.step(1 + text.length / 10);
  return new JsonReader(text).whole();
}

const number = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const string = /"(?:[^"\\\p{Cc}]|\x7f|[\x80-\x9f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const space = /[ \t\n\r]*/y;
const word = /true|false|null|NaN|-?Infinity/y;
const maxDepth = 200;

/** Parser that distinguishes 2.0 from 2, in contrast to `JSON.parse`. */
class JsonReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): Value {
    const value = this.#value();
    if (this.#at < this.#text.length) this.#fail();
    return value;
  }

  #value(): Value {
    this.#match(space);
    this.#depth += 1;
    if (this.#depth > maxDepth) throw valueError('JSON is nested too deeply');
    const value = this.#inner();
    this.#depth -= 1;
    this.#match(space);
    return value;
  }

  #inner(): Value {
    const next = this.#text.charAt(this.#at);
    if (next === '{') return this.#object();
    if (next === '[') return this.#array();
    if (next === '"') return this.#string();
    const name = this.#match(word);
    return name === undefined ? this.#number() : constant(name);
  }

  #object(): Dict {
    const dict = new Dict();
    this.#list('}', () => {
      this.#match(space);
      const key = this.#string();
      this.#match(space);
      this.#take(':');
      dict.set(key, this.#value());
    });
    return dict;
  }

  #array(): Value[] {
    const items: Value[] = [];
    this.#list(']', () => items.push(this.#value()));
    return items;
  }

  #list(end: string, item: () => void): void {
    this.#at += 1;
    this.#match(space);
    if (this.#text.charAt(this.#at) !== end) {
      item();
      while (this.#text.charAt(this.#at) === ',') {
        this.#at += 1;
        item();
      }
    }
    this.#take(end);
  }

  #string(): string {
    const text = this.#match(string);
    if (text === undefined) this.#fail();
    const parsed: unknown = JSON.parse(text);
    return str(typeof parsed === 'string' ? parsed : null);
  }

  #number(): Value {
    number.lastIndex = this.#at;
    const [text, fraction, exponent] = number.exec(this.#text) ?? [];
    if (text === undefined) this.#fail();
    this.#at += text.length;
    if (fraction !== undefined || exponent !== undefined) return new Float(Number(text));
    const value = parseInteger(text);
    if (value === undefined) this.#fail();
    return value;
  }

  #take(character: string): void {
    if (this.#text.charAt(this.#at) !== character) this.#fail();
    this.#at += 1;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [text] = pattern.exec(this.#text) ?? [];
    this.#at += text?.length ?? 0;
    return text;
  }

  #fail(): never {
    const line = this.#text.slice(0, this.#at).split('\n').length;
    throw valueError(`invalid JSON at line ${line}`);
  }
}

function constant(name: string): Value {
  switch (name) {
    case 'true':
      return true;
    case 'false':
      return false;
    case 'null':
      return null;
    default:
      return new Float(Number(name));
  }
}

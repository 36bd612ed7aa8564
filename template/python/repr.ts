/** Implements `str()`, `repr()` and type names. */

import { typeError } from './exceptions.ts';
import { floatRepr } from './floats.ts';
import { RecursionGuard } from './limits.ts';
import { integerText } from './numbers.ts';
import {
  Bytes,
  Dict,
  Float,
  Lazy,
  Markup,
  PySet,
  Range,
  Tuple,
  Undefined,
  type Value,
} from './values.ts';

/**
 * Implements `str(value)`.
 * @throws PythonException UndefinedError for strict undefined values
 */
export function str(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) {
    if (value.isStrict) throw value.error();
    return '';
  }
  if (typeof value === 'object' && value !== null && 'str' in value) {
    return value.str?.() ?? value.repr();
  }
  return repr(value);
}

/** Implements `repr(value)`. */
export function repr(value: Value, walk: RecursionGuard = new RecursionGuard()): string {
  switch (typeof value) {
    case 'string':
      walk.take(value.length);
      return textRepr(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'number':
    case 'bigint':
      return integerText(value);
  }
  if (value === null) return 'None';
  if (value instanceof Float) return floatRepr(value.value);
  if (value instanceof Markup) return `Markup(${textRepr(value.text)})`;
  if (value instanceof Bytes) return bytesRepr(value.bytes);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Range) return rangeRepr(value);
  if (value instanceof Lazy) return `<${value.typeName} object at 0x7f0000000000>`;
  if ('repr' in value) return value.repr();
  return containerRepr(value, walk);
}

function containerRepr(value: Value[] | Tuple | Dict | PySet, walk: RecursionGuard): string {
  const isOpen = walk.isInside(value);
  if (isOpen && Array.isArray(value)) return '[...]';
  if (isOpen && value instanceof Dict) return '{...}';
  return walk.into(value, () => {
    const all = (items: readonly Value[]): string => items.map((v) => repr(v, walk)).join(', ');
    if (Array.isArray(value)) return `[${all(value)}]`;
    if (value instanceof Tuple)
      return `(${all(value.items)}${value.items.length === 1 ? ',' : ''})`;
    if (value instanceof PySet) return value.size === 0 ? 'set()' : `{${all(value.values())}}`;
    return `{${Array.from(value.entries(), ([k, v]) => `${repr(k, walk)}: ${repr(v, walk)}`).join(', ')}}`;
  });
}

/**
 * Returns the text that `{{ … }}` prints. For the values of a dict, Salt uses `str()` instead of
 * `repr()`; the results differ only for undefined values [SerializerExtension.finalizer].
 */
export function printedText(value: Value, walk: RecursionGuard = new RecursionGuard()): string {
  if (!(value instanceof Dict))
    return typeof value === 'object' ? reprOrStr(value, walk) : str(value);
  return walk.into(value, () => {
    const pairs = Array.from(value.entries(), ([key, item]) => {
      const isText = typeof item === 'string' || item instanceof Markup;
      return `${repr(key, walk)}: ${isText ? repr(item, walk) : printedText(item, walk)}`;
    });
    return `{${pairs.join(', ')}}`;
  });
}

function reprOrStr(value: Value, walk: RecursionGuard): string {
  refuseGroups(value, walk);
  return Array.isArray(value) || value instanceof Tuple || value instanceof PySet
    ? containerRepr(value, walk)
    : str(value);
}

/**
 * Throws if a value that a template prints is a result of `groupby`, or contains one at any depth.
 * Salt fails in this case, because it cannot copy the tuples of `groupby`
 * [SerializerExtension.finalizer].
 * @throws PythonException TypeError
 */
function refuseGroups(value: Value, walk: RecursionGuard): void {
  if (value instanceof Tuple && value.fields.length > 0) {
    throw typeError("_GroupTuple.__new__() missing 1 required positional argument: 'list'");
  }
  if (!isContainer(value) || walk.isInside(value)) return;
  walk.into(value, () => {
    for (const item of itemsOf(value)) refuseGroups(item, walk);
  });
}

function isContainer(value: Value): value is Value[] | Tuple | Dict | PySet {
  return [Array, Tuple, Dict, PySet].some((type) => value instanceof type);
}

function itemsOf(value: Value[] | Tuple | Dict | PySet): Iterable<Value> {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : value.values();
}

/** Implements `type(value).__name__`. */
export function typeName(value: Value): string {
  switch (typeof value) {
    case 'string':
      return 'str';
    case 'boolean':
      return 'bool';
    case 'number':
    case 'bigint':
      return 'int';
  }
  if (value === null) return 'NoneType';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Float) return 'float';
  if (value instanceof Tuple) return value.fields.length > 0 ? '_GroupTuple' : 'tuple';
  if (value instanceof Dict) return 'dict';
  if (value instanceof PySet) return 'set';
  if (value instanceof Undefined) return value.isStrict ? 'StrictUndefined' : 'Undefined';
  if (value instanceof Markup) return 'Markup';
  if (value instanceof Bytes) return 'bytes';
  if (value instanceof Range) return 'range';
  return value.typeName;
}

/** Describes a value as jinja2 does in its messages, for example `dict object`. */
export function describeObject(value: Value): string {
  if (value === null) return 'None';
  const name = typeName(value);
  if (value instanceof Markup) return `markupsafe.${name} object`;
  if (value instanceof Tuple && value.fields.length > 0) return `jinja2.filters.${name} object`;
  const module = typeof value === 'object' && 'repr' in value ? (value.module ?? '') : '';
  return `${module}${name} object`;
}

function rangeRepr({ start, stop, step }: Range): string {
  return step === 1 ? `range(${start}, ${stop})` : `range(${start}, ${stop}, ${step})`;
}

const shortEscapes: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\\': '\\\\',
};
/**
 * Matches characters that `str.isprintable` rejects (categories Other and Separator except the
 * space), and the backslash.
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\\]/gu;

/** ASCII without quotes, backslashes and control characters. */
const plainText = /^[ !#-&(-[\]-~]*$/;

/** Implements `repr()` for a text. */
export function textRepr(text: string): string {
  if (plainText.test(text)) return `'${text}'`;
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(unprintable, (character) =>
    character === ' ' ? ' ' : (shortEscapes[character] ?? codeEscape(character)),
  );
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

/** Implements `str.isprintable` for one character. */
export function isPrintable(character: string): boolean {
  return character === ' ' || character === '\\' || character.search(unprintable) < 0;
}

function codeEscape(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

/** Implements `repr()` for bytes. */
export function bytesRepr(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('latin1');
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let escaped = '';
  for (const character of text) {
    const isPlain = character >= ' ' && character <= '~' && character !== '\\';
    if (character === quote) escaped += `\\${character}`;
    else escaped += isPlain ? character : (shortEscapes[character] ?? codeEscape(character));
  }
  return `b${quote}${escaped}${quote}`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '>': '&gt;',
  '<': '&lt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Implements `markupsafe.escape`. Text that is marked as safe is returned unchanged. */
export function escapeHtml(value: Value): string {
  if (value instanceof Markup) return value.text;
  return str(value).replace(/[&><'"]/g, (character) => entities[character] ?? character);
}

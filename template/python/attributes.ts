/**
 * Looks up `value.name` in the tables of methods, or in objects that implement attributes
 * themselves.
 */

import { dictMethods, dictPop, updateDict } from './dict-methods.ts';
import { PythonException, typeError } from './exceptions.ts';
import { type FieldLookup, formatFields } from './format-fields.ts';
import { BuiltinFunction, boundMethod, defineMethod, type Methods } from './functions.ts';
import type { UsageMeter } from './limits.ts';
import { listMethods, rangeMethods, tupleMethods } from './list-methods.ts';
import { toInteger } from './numbers.ts';
import { setMethods } from './set-methods.ts';
import { stringMethods } from './string-methods.ts';
import {
  type Arguments,
  Bytes,
  Dict,
  Float,
  isInteger,
  isPyObject,
  isText,
  Markup,
  PySet,
  Range,
  Tuple,
  textOf,
  type Value,
} from './values.ts';

/** Usage meter and look-up rules that apply when a template reads an attribute. */
export interface AttributeContext {
  readonly meter: UsageMeter;
  readonly lookup: FieldLookup;
}

/** Returns an attribute, or `undefined` if the value has no attribute of this name. */
export function tryAttribute(
  value: Value,
  name: string,
  context: AttributeContext,
): Value | undefined {
  const { meter } = context;
  if (isText(value)) return textAttribute(value, name, context);
  if (value instanceof Dict) return dictAttribute(value, name, meter);
  if (Array.isArray(value)) return boundMethod(listMethods, name, value, meter);
  if (value instanceof Tuple) {
    const field = value.fields.indexOf(name);
    return field < 0 ? boundMethod(tupleMethods, name, value, meter) : value.items[field];
  }
  if (value instanceof PySet) return boundMethod(setMethods, name, value, meter);
  if (value instanceof Range) return boundMethod(rangeMethods, name, value, meter);
  if (value instanceof Bytes) return boundMethod(bytesMethods, name, value, meter);
  if (value instanceof Float) return boundMethod(floatMethods, name, value, meter);
  if (isInteger(value)) return boundMethod(integerMethods, name, value, meter);
  return isPyObject(value) ? value.attribute?.(name) : undefined;
}

function dictAttribute(dict: Dict, name: string, meter: UsageMeter): Value | undefined {
  if (name === 'update') return new BuiltinFunction(name, (args) => updateDict(dict, args, meter));
  if (name === 'pop') return new BuiltinFunction(name, (args) => dictPop(dict, args));
  return boundMethod(dictMethods, name, dict, meter);
}

function textAttribute(
  value: string | Markup,
  name: string,
  context: AttributeContext,
): Value | undefined {
  const isMarked = value instanceof Markup;
  const text = textOf(value);
  if (name === 'format')
    return new BuiltinFunction(name, (args) => format(text, args, isMarked, context));
  if (name === 'format_map') {
    return new BuiltinFunction(name, (args) => format(text, mapArguments(args), isMarked, context));
  }
  const found = boundMethod(stringMethods, name, text, context.meter);
  if (found === undefined || !isMarked) return found;
  return new BuiltinFunction(name, (args) => asMarkup(found.call(args)));
}

/** Converts the result of a method on markup to markup. */
function asMarkup(value: Value): Value {
  if (typeof value === 'string') return new Markup(value);
  return Array.isArray(value) ? value.map(asMarkup) : value;
}

function format(
  text: string,
  args: Arguments,
  isMarked: boolean,
  { meter, lookup }: AttributeContext,
): Value {
  const formatted = formatFields(text, { args, lookup, meter, isMarked });
  return isMarked ? new Markup(formatted) : formatted;
}

/**
 * Converts the argument of `format_map` to keyword arguments.
 * @throws PythonException TypeError
 */
function mapArguments({ positional, named }: Arguments): Arguments {
  if (named.size > 0) throw typeError('format_map() takes no keyword arguments');
  const [mapping] = positional;
  if (!(mapping instanceof Dict) || positional.length > 1) {
    throw typeError(`format_map() takes exactly one argument (${positional.length} given)`);
  }
  const entries = Array.from(
    mapping.entries(),
    ([k, v]) => [typeof k === 'string' ? k : '', v] as const,
  );
  return { positional: [], named: new Map(entries) };
}

const bytesMethods: Methods<Bytes> = new Map([
  [
    'decode',
    defineMethod<Bytes>(['encoding', 'errors'], ['utf-8', 'strict'], ({ bytes }, meter) => {
      meter.text(bytes.length);
      try {
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      } catch (cause) {
        throw new PythonException('UnicodeDecodeError', "'utf-8' codec can't decode the bytes", {
          cause,
        });
      }
    }),
  ],
  ['hex', defineMethod<Bytes>([], [], ({ bytes }) => Buffer.from(bytes).toString('hex'))],
]);

const floatMethods: Methods<Float> = new Map([
  ['is_integer', defineMethod<Float>([], [], ({ value }) => Number.isInteger(value))],
]);

const integerMethods: Methods<number | bigint | boolean> = new Map([
  [
    'bit_length',
    defineMethod<number | bigint | boolean>([], [], (value) => {
      const integer = BigInt(toInteger(value));
      return integer === 0n ? 0 : (integer < 0n ? -integer : integer).toString(2).length;
    }),
  ],
]);

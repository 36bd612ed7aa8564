/** Parses and writes plain scalars of YAML 1.1 like PyYAML, with Salt's changes. */

import { floatRepr, parseFloatText } from './floats.ts';
import {
  addIntegers,
  type Integer,
  integerText,
  multiplyIntegers,
  negateInteger,
  parseInteger,
} from './numbers.ts';
import { Bytes, Float, isInteger, type Value } from './values.ts';

/** Returns the text of a scalar that is not a string. Returns `undefined` for other values. */
export function representScalar(value: Value): string | undefined {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (isInteger(value)) return integerText(value);
  return value instanceof Float ? representFloat(value.value) : undefined;
}

/** Formats a float. YAML 1.1 requires a point before the exponent. */
function representFloat(value: number): string {
  if (Number.isNaN(value)) return '.nan';
  if (!Number.isFinite(value)) return value > 0 ? '.inf' : '-.inf';
  const text = floatRepr(value);
  return text.includes('.') || !text.includes('e') ? text : text.replace('e', '.0e');
}

/** Patterns of scalars that are not strings, by tag. */
export const scalarForms = {
  bool: /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/,
  null: /^(?:~|null|Null|NULL|)$/,
  int: /^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$/,
  float:
    /^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
  timestamp:
    /^(?:\d{4}-\d{2}-\d{2}|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d{2}:\d{2}(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d{2})?))?)$/,
} as const;

/** Tag of a scalar, without the prefix `tag:yaml.org,2002:`. */
export type ScalarTag = 'null' | 'bool' | 'int' | 'float' | 'merge' | 'value' | 'timestamp' | 'str';

/** Returns the tag of a plain scalar without an explicit tag. */
export function resolveTag(text: string): ScalarTag {
  if (scalarForms.null.test(text)) return 'null';
  if (scalarForms.bool.test(text)) return 'bool';
  if (scalarForms.int.test(text)) return 'int';
  if (scalarForms.float.test(text)) return 'float';
  if (text === '<<') return 'merge';
  if (text === '=') return 'value';
  return scalarForms.timestamp.test(text) ? 'timestamp' : 'str';
}

/**
 * Converts a scalar with a tag to a value. Returns `undefined` if the text is not valid for the tag
 * or the tag is unknown.
 */
export function constructScalar(tag: string, text: string): Value | undefined {
  switch (tag) {
    case 'str':
    case 'timestamp':
    case 'python/unicode':
      return text;
    case 'null':
      return null;
    case 'bool':
      return bools[text.toLowerCase()];
    case 'int':
      return constructInteger(text);
    case 'float':
      return constructFloat(text);
    case 'binary':
      return constructBinary(text);
  }
  return undefined;
}

const bools: Readonly<Record<string, boolean>> = {
  yes: true,
  no: false,
  true: true,
  false: false,
  on: true,
  off: false,
};

/**
 * Parses an integer. Salt removes leading zeros, so that a file mode such as 0755 keeps its digits.
 */
function constructInteger(text: string): Integer | undefined {
  const isOctalLike = text.startsWith('0') && !/^0[bx]/.test(text) && text !== '0';
  const plain = (isOctalLike ? text.replace(/^0+/, '') || '0' : text).replaceAll('_', '');
  const isNegative = plain.startsWith('-');
  const size = constructSize(plain.replace(/^[-+]/, ''));
  return size === undefined || !isNegative ? size : negateInteger(size);
}

function constructSize(digits: string): Integer | undefined {
  if (digits === '0') return 0;
  if (digits.startsWith('0b')) return parseInteger(digits.slice(2), 2);
  if (digits.startsWith('0x')) return parseInteger(digits.slice(2), 16);
  if (digits.startsWith('0')) return parseInteger(digits, 8);
  let total: Integer | undefined = 0;
  for (const part of digits.split(':')) {
    const number = parseInteger(part);
    total =
      number === undefined || total === undefined
        ? undefined
        : addIntegers(multiplyIntegers(total, 60), number);
  }
  return total;
}

function constructFloat(text: string): Float | undefined {
  const plain = text.replaceAll('_', '').toLowerCase();
  const sign = plain.startsWith('-') ? -1 : 1;
  const size = plain.replace(/^[-+]/, '');
  if (size === '.inf') return new Float(sign * Number.POSITIVE_INFINITY);
  if (size === '.nan') return new Float(Number.NaN);
  let total = 0;
  for (const part of size.split(':')) {
    const number = parseFloatText(part);
    if (number === undefined) return undefined;
    total = total * 60 + number;
  }
  return new Float(sign * total);
}

function constructBinary(text: string): Bytes | undefined {
  const plain = text.replaceAll(/[^A-Za-z0-9+/=]/g, '');
  return plain.length % 4 === 0 ? new Bytes(Buffer.from(plain, 'base64')) : undefined;
}

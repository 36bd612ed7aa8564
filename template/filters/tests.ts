/** jinja2's tests, and those that Salt adds. */
import { contains, equals, isOrdered, type OrderOperator } from '../python/compare.ts';
import { isTrue } from '../python/iterate.ts';
import { isLower, isUpper } from '../python/letter-case.ts';
import { binary } from '../python/operators.ts';
import { Raised } from '../python/raise.ts';
import { str } from '../python/repr.ts';
import {
  Bytes,
  Dict,
  Float,
  isInteger,
  isText,
  Markup,
  Range,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { type Definition, type Definitions, define, simple } from './definition.ts';
import { compilePython } from './regex.ts';
import { isIterable } from './text.ts';

function remainderIs(divisor: number, wanted: number): Definition {
  return simple((value, { meter }) => equals(binary(value, '%', divisor, meter), wanted));
}

function order(operator: OrderOperator): Definition {
  return define(['a', 'b'], [], (_context, a = null, b = null) => isOrdered(a, operator, b));
}

const equal = define(['a', 'b'], [], (_context, a = null, b = null) => equals(a, b));
const different = define(['a', 'b'], [], (_context, a = null, b = null) => !equals(a, b));

/** `is`: the same object, where Python keeps small ints and short texts once. */
function isSame(left: Value, right: Value): boolean {
  return left === right;
}

function isSequence(value: Value): boolean {
  if (value instanceof Undefined && value.isStrict) return false;
  return (
    isText(value) ||
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof Dict ||
    value instanceof Range ||
    value instanceof Bytes ||
    value instanceof Undefined
  );
}

function matches(value: Value, pattern: Value, ignoreCase: Value, multiline: Value): boolean {
  const flags = { ignoreCase: isTrue(ignoreCase), multiline: isTrue(multiline) };
  const regex = compilePython(pattern, flags);
  if (!isText(value)) throw new Raised('TypeError', 'expected string or bytes-like object');
  return regex.matchesAtStart(textOf(value));
}

/** Whether a value is an int, a float or a bool. */
function isNumber(value: Value): boolean {
  return isInteger(value) || value instanceof Float;
}

/** The tests by name, but for `filter` and `test`, which know all of them. */
export const testDefinitions: Definitions = {
  odd: remainderIs(2, 1),
  even: remainderIs(2, 0),
  divisibleby: define(['value', 'num'], [], ({ meter }, value = null, num = null) =>
    equals(binary(value, '%', num, meter), 0),
  ),
  defined: simple((value) => !(value instanceof Undefined)),
  undefined: simple((value) => value instanceof Undefined),
  none: simple((value) => value === null),
  boolean: simple((value) => typeof value === 'boolean'),
  false: simple((value) => value === false),
  true: simple((value) => value === true),
  integer: simple((value) => isInteger(value) && typeof value !== 'boolean'),
  float: simple((value) => value instanceof Float),
  lower: simple((value) => isLower(str(value))),
  upper: simple((value) => isUpper(str(value))),
  string: simple(isText),
  mapping: simple((value) => value instanceof Dict),
  number: simple(isNumber),
  sequence: simple(isSequence),
  iterable: simple((value) => {
    if (value instanceof Undefined && value.isStrict) throw value.error();
    return isIterable(value);
  }),
  callable: simple((value) => typeof value === 'object' && value !== null && 'call' in value),
  sameas: define(['value', 'other'], [], (_context, a = null, b = null) => isSame(a, b)),
  escaped: simple((value) => value instanceof Markup),
  in: define(['value', 'seq'], [], ({ meter }, value = null, sequence = null) => {
    if (Array.isArray(sequence)) meter.comparisons(sequence.length);
    return contains(sequence, value);
  }),
  '==': equal,
  eq: equal,
  equalto: equal,
  '!=': different,
  ne: different,
  '>': order('>'),
  gt: order('>'),
  greaterthan: order('>'),
  '>=': order('>='),
  ge: order('>='),
  '<': order('<'),
  lt: order('<'),
  lessthan: order('<'),
  '<=': order('<='),
  le: order('<='),
  match: define(
    ['txt', 'rgx', 'ignorecase', 'multiline'],
    [false, false],
    (_context, text = null, pattern = null, ignoreCase = false, multiline = false) =>
      matches(text, pattern, ignoreCase, multiline),
  ),
  list: simple(Array.isArray),
};

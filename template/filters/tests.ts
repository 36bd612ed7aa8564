/** Tests of jinja2 and Salt. */

import { contains, equals, isOrdered, type OrderOperator } from '../python/comparison.ts';
import { PythonException } from '../python/exceptions.ts';
import { binaryOperation } from '../python/operators.ts';
import { compileRegex } from '../python/regex.ts';
import { str } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { isLower, isUpper } from '../python/text-case.ts';
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
import {
  defineFilter,
  type FilterContext,
  type FilterDefinition,
  type FilterDefinitions,
  simpleFilter,
} from './definition.ts';
import { isIterable } from './jinja-scalars.ts';

function remainderIs(divisor: number, wanted: number): FilterDefinition {
  return simpleFilter((value, { meter }) =>
    equals(binaryOperation(value, '%', divisor, meter), wanted),
  );
}

function order(operator: OrderOperator): FilterDefinition {
  return defineFilter(['a', 'b'], [], (_context, a = null, b = null) => isOrdered(a, operator, b));
}

const equal = defineFilter(['a', 'b'], [], (_context, a = null, b = null) => equals(a, b));
const different = defineFilter(['a', 'b'], [], (_context, a = null, b = null) => !equals(a, b));

/**
 * Implements Python's `is`. Small ints and short texts are the same object if they are equal,
 * because Python interns them.
 */
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

function matches(
  { meter }: FilterContext,
  value: Value,
  pattern: Value,
  ignoreCase: Value,
  multiline: Value,
): boolean {
  const flags = { ignoreCase: isTruthy(ignoreCase), multiline: isTruthy(multiline) };
  const regex = compileRegex(pattern, flags, meter);
  if (!isText(value))
    throw new PythonException('TypeError', 'expected string or bytes-like object');
  return regex.matchesAtStart(textOf(value));
}

/** Whether a value is an int, a float or a bool. */
function isNumber(value: Value): boolean {
  return isInteger(value) || value instanceof Float;
}

/**
 * Jinja's tests by name. The tests `filter` and `test` are missing, because they need the complete
 * tables of filters and tests.
 */
export const testDefinitions: FilterDefinitions = {
  odd: remainderIs(2, 1),
  even: remainderIs(2, 0),
  divisibleby: defineFilter(['value', 'num'], [], ({ meter }, value = null, num = null) =>
    equals(binaryOperation(value, '%', num, meter), 0),
  ),
  defined: simpleFilter((value) => !(value instanceof Undefined)),
  undefined: simpleFilter((value) => value instanceof Undefined),
  none: simpleFilter((value) => value === null),
  boolean: simpleFilter((value) => typeof value === 'boolean'),
  false: simpleFilter((value) => value === false),
  true: simpleFilter((value) => value === true),
  integer: simpleFilter((value) => isInteger(value) && typeof value !== 'boolean'),
  float: simpleFilter((value) => value instanceof Float),
  lower: simpleFilter((value) => isLower(str(value))),
  upper: simpleFilter((value) => isUpper(str(value))),
  string: simpleFilter(isText),
  mapping: simpleFilter((value) => value instanceof Dict),
  number: simpleFilter(isNumber),
  sequence: simpleFilter(isSequence),
  iterable: simpleFilter((value) => {
    if (value instanceof Undefined && value.isStrict) throw value.error();
    return isIterable(value);
  }),
  // A call of an undefined value fails, but the class has the method, as in Jinja.
  callable: simpleFilter(
    (value) =>
      value instanceof Undefined ||
      (typeof value === 'object' && value !== null && 'call' in value),
  ),
  sameas: defineFilter(['value', 'other'], [], (_context, a = null, b = null) => isSame(a, b)),
  escaped: simpleFilter((value) => value instanceof Markup),
  in: defineFilter(['value', 'seq'], [], ({ meter }, value = null, sequence = null) => {
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
  match: defineFilter(
    ['txt', 'rgx', 'ignorecase', 'multiline'],
    [false, false],
    (context, text = null, pattern = null, ignoreCase = false, multiline = false) =>
      matches(context, text, pattern, ignoreCase, multiline),
  ),
  list: simpleFilter(Array.isArray),
};

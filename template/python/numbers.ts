/** Python's numbers: ints of any size, and floats. */

import { LimitExceeded, PythonException, valueError } from './exceptions.ts';

/** An `int`. It is a `number` if that is exact, otherwise a `bigint`. */
export type Integer = number | bigint;

/**
 * Maximum size of an integer, in bits. Templates need no larger integers. With this maximum, each
 * operation takes only microseconds.
 */
const maxBits = 65_536;
const maxDigits = 4300;

/** Converts an integer to its canonical form: a `number` if that is exact. */
export function normalizeInteger(value: bigint): Integer {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
}

/** Converts a bool to 0 or 1, and returns integers unchanged. */
export function toInteger(value: number | bigint | boolean): Integer {
  return typeof value === 'boolean' ? Number(value) : value;
}

/**
 * Multiplies integers.
 * @throws LimitExceeded
 */
export function multiplyIntegers(left: Integer, right: Integer): Integer {
  if (typeof left === 'number' && typeof right === 'number') {
    const product = left * right;
    if (Number.isSafeInteger(product)) return product === 0 ? 0 : product;
  }
  checkBits(bitLength(left) + bitLength(right));
  return normalizeInteger(BigInt(left) * BigInt(right));
}

/** Adds integers. */
export function addIntegers(left: Integer, right: Integer): Integer {
  if (typeof left === 'number' && typeof right === 'number') {
    const sum = left + right;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return normalizeInteger(BigInt(left) + BigInt(right));
}

/** Negates an integer. The result is never -0. */
export function negateInteger(value: Integer): Integer {
  return typeof value === 'number' ? 0 - value : normalizeInteger(-value);
}

/**
 * Implements `//`, rounded towards minus infinity.
 * @throws PythonException ZeroDivisionError
 */
export function floorDivideIntegers(left: Integer, right: Integer): Integer {
  checkDivisor(right);
  if (typeof left === 'number' && typeof right === 'number') {
    return (left - modulo(left, right)) / right + 0;
  }
  const dividend = BigInt(left);
  const divisor = BigInt(right);
  return normalizeInteger((dividend - bigModulo(dividend, divisor)) / divisor);
}

/**
 * Implements `%`. The result has the sign of the divisor.
 * @throws PythonException ZeroDivisionError
 */
export function integerRemainder(left: Integer, right: Integer): Integer {
  checkDivisor(right);
  if (typeof left === 'number' && typeof right === 'number') return modulo(left, right);
  return normalizeInteger(bigModulo(BigInt(left), BigInt(right)));
}

/**
 * Implements `**` for exponents of 0 or more.
 * @throws LimitExceeded
 */
export function integerPower(base: Integer, exponent: Integer): Integer {
  if (base === 0 || base === 1 || exponent === 0) return exponent === 0 ? 1 : base;
  if (base === -1) return BigInt(exponent) % 2n === 0n ? 1 : -1;
  checkBits((bitLength(base) - 1) * Number(exponent));
  return normalizeInteger(BigInt(base) ** BigInt(exponent));
}

/**
 * Formats an integer. As in Python, very large integers are an error.
 * @throws PythonException ValueError
 */
export function integerText(value: Integer): string {
  const text = String(value);
  if (text.length > maxDigits + 1) {
    throw valueError(`Exceeds the limit (${maxDigits} digits) for integer string conversion`);
  }
  return text;
}

/**
 * Returns the nearest float.
 * @throws PythonException OverflowError
 */
export function toDouble(value: Integer): number {
  const double = Number(value);
  if (Number.isFinite(double)) return double;
  throw new PythonException('OverflowError', 'int too large to convert to float');
}

/** Implements `int(text, base)`. Returns `undefined` where Python raises `ValueError`. */
export function parseInteger(text: string, base = 10): Integer | undefined {
  const match = /^([+-]?)(0[xXoObB])?_?([0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*)$/.exec(text.trim());
  if (match === null) return undefined;
  const [, sign, prefix = '', digits = ''] = match;
  const prefixed = prefixBases[prefix.toLowerCase()];
  const radix = base === 0 ? (prefixed ?? 10) : base;
  const bare = digits.replaceAll('_', '');
  const body = prefix !== '' && prefixed !== radix ? prefix + bare : bare;
  if (base === 0 && prefix === '' && /^0+[1-9]/.test(body)) return undefined;
  const value = digitsToInteger(body.toLowerCase(), radix);
  if (value === undefined) return undefined;
  return sign === '-' ? negateInteger(value) : value;
}

const prefixBases: Readonly<Record<string, number>> = { '0x': 16, '0o': 8, '0b': 2 };

function digitsToInteger(digits: string, radix: number): Integer | undefined {
  if (digits.length > maxDigits) return undefined;
  let value = 0n;
  let small = 0;
  for (const digit of digits) {
    const amount = Number.parseInt(digit, 36);
    if (Number.isNaN(amount) || amount >= radix) return undefined;
    small = small * radix + amount;
    value = digits.length > 9 ? value * BigInt(radix) + BigInt(amount) : 0n;
  }
  return digits.length > 9 ? normalizeInteger(value) : small;
}

/**
 * Checks that a divisor is not zero.
 * @throws PythonException ZeroDivisionError
 */
function checkDivisor(divisor: Integer): void {
  if (Number(divisor) === 0) {
    throw new PythonException('ZeroDivisionError', 'integer division or modulo by zero');
  }
}

/**
 * Checks the size of a result.
 * @throws LimitExceeded
 */
function checkBits(bits: number): void {
  if (!(bits <= maxBits)) throw new LimitExceeded('bits of an integer', maxBits);
}

function bitLength(value: Integer): number {
  const size = value < 0 ? -BigInt(value) : BigInt(value);
  return size.toString(16).length * 4;
}

function modulo(left: number, right: number): number {
  const rest = left % right;
  return rest !== 0 && rest < 0 !== right < 0 ? rest + right : rest + 0;
}

function bigModulo(left: bigint, right: bigint): bigint {
  const rest = left % right;
  return rest !== 0n && rest < 0n !== right < 0n ? rest + right : rest;
}

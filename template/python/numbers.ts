/** Python's numbers: ints of any size, and floats as Python reads and prints them. */

import { LimitExceeded, PythonException, valueError } from './exceptions.ts';

/** An `int`: a `number` exactly while it is a safe integer. */
export type Integer = number | bigint;

/** No genuine template counts this far; the time of every operation stays in microseconds. */
const maxBits = 65_536;
const maxDigits = 4300;

/** The form that an int has everywhere. */
export function normalizeInteger(value: bigint): Integer {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
}

/** A bool counts as 0 or 1. */
export function toInteger(value: number | bigint | boolean): Integer {
  return typeof value === 'boolean' ? Number(value) : value;
}

/** @throws LimitExceeded */
export function multiplyIntegers(left: Integer, right: Integer): Integer {
  if (typeof left === 'number' && typeof right === 'number') {
    const product = left * right;
    if (Number.isSafeInteger(product)) return product === 0 ? 0 : product;
  }
  checkBits(bitLength(left) + bitLength(right));
  return normalizeInteger(BigInt(left) * BigInt(right));
}

/** @throws LimitExceeded */
export function addIntegers(left: Integer, right: Integer): Integer {
  if (typeof left === 'number' && typeof right === 'number') {
    const sum = left + right;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return normalizeInteger(BigInt(left) + BigInt(right));
}

/** The negative, never -0. */
export function negateInteger(value: Integer): Integer {
  return typeof value === 'number' ? 0 - value : normalizeInteger(-value);
}

/** `//`, towards minus infinity. @throws PythonException ZeroDivisionError */
export function floorDivideIntegers(left: Integer, right: Integer): Integer {
  checkDivisor(right);
  if (typeof left === 'number' && typeof right === 'number') {
    return (left - modulo(left, right)) / right + 0;
  }
  const dividend = BigInt(left);
  const divisor = BigInt(right);
  return normalizeInteger((dividend - bigModulo(dividend, divisor)) / divisor);
}

/** `%`, with the sign of the divisor. @throws PythonException ZeroDivisionError */
export function integerRemainder(left: Integer, right: Integer): Integer {
  checkDivisor(right);
  if (typeof left === 'number' && typeof right === 'number') return modulo(left, right);
  return normalizeInteger(bigModulo(BigInt(left), BigInt(right)));
}

/** `**` for an exponent of 0 or more. @throws LimitExceeded */
export function integerPower(base: Integer, exponent: Integer): Integer {
  if (base === 0 || base === 1 || exponent === 0) return exponent === 0 ? 1 : base;
  if (base === -1) return BigInt(exponent) % 2n === 0n ? 1 : -1;
  checkBits((bitLength(base) - 1) * Number(exponent));
  return normalizeInteger(BigInt(base) ** BigInt(exponent));
}

/** Python refuses to print very large ints. @throws PythonException ValueError */
export function integerText(value: Integer): string {
  const text = String(value);
  if (text.length > maxDigits + 1) {
    throw valueError(`Exceeds the limit (${maxDigits} digits) for integer string conversion`);
  }
  return text;
}

/** The nearest float. @throws PythonException OverflowError */
export function toDouble(value: Integer): number {
  const double = Number(value);
  if (Number.isFinite(double)) return double;
  throw new PythonException('OverflowError', 'int too large to convert to float');
}

/** `int(text, base)`, or undefined where Python raises `ValueError`. */
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

/** @throws PythonException ZeroDivisionError */
function checkDivisor(divisor: Integer): void {
  if (Number(divisor) === 0) {
    throw new PythonException('ZeroDivisionError', 'integer division or modulo by zero');
  }
}

/** @throws LimitExceeded */
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

// Floats as Python reads and prints them.

/** A number's decimal digits, without sign: 0.d1d2d3… × 10^exponent. */
interface Decimal {
  readonly digits: string;
  readonly exponent: number;
}

/** `repr()` of a float. */
export function floatRepr(value: number): string {
  const special = nonFiniteRepr(value);
  if (special !== undefined) return special;
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const { digits, exponent } = shortest(Math.abs(value));
  const sign = value < 0 ? '-' : '';
  if (exponent > 16 || exponent < -3) return `${sign}${scientific(digits, exponent - 1)}`;
  return `${sign}${positional(digits, exponent, true)}`;
}

/** `inf`, `-inf`, `nan`, or undefined for a finite number. */
export function nonFiniteRepr(value: number): string | undefined {
  if (Number.isNaN(value)) return 'nan';
  if (Number.isFinite(value)) return undefined;
  return value > 0 ? 'inf' : '-inf';
}

/** `'%.<precision>f'`, rounded half to even as C does; without the sign. */
export function formatFixed(value: number, precision: number): string {
  const exact = exactDecimal(Math.abs(value));
  const { digits, exponent } = roundTo(exact, exact.exponent + precision);
  const whole = exponent > 0 ? digits.slice(0, exponent).padEnd(exponent, '0') : '0';
  const fraction = exponent > 0 ? digits.slice(exponent) : '0'.repeat(-exponent) + digits;
  return precision === 0
    ? whole
    : `${whole}.${fraction.slice(0, precision).padEnd(precision, '0')}`;
}

/** `'%.<precision>e'`, without the sign. */
export function formatExponential(value: number, precision: number): string {
  const { digits, exponent } = roundTo(exactDecimal(Math.abs(value)), precision + 1);
  const padded = digits.padEnd(precision + 1, '0');
  return scientific(padded, value === 0 ? 0 : exponent - 1);
}

/** `'%.<precision>g'`, without the sign; `keepZeros` is the flag `#`. */
export function formatGeneral(value: number, precision: number, keepZeros: boolean): string {
  const significant = Math.max(1, precision);
  const { digits, exponent } = roundTo(exactDecimal(Math.abs(value)), significant);
  const power = value === 0 ? 0 : exponent - 1;
  const kept = keepZeros ? digits.padEnd(significant, '0') : digits.replace(/0+$/, '') || '0';
  if (power < -4 || power >= significant) return scientific(kept, power);
  return positional(kept, power + 1, false);
}

/** `float(text)`, or undefined where Python raises `ValueError`. */
export function parseFloatText(text: string): number | undefined {
  const plain = text.trim().replace(/(?<=\d)_(?=\d)/g, '');
  const special = /^([+-]?)(inf|infinity|nan)$/i.exec(plain);
  if (special !== null) {
    if (special[2]?.toLowerCase() === 'nan') return Number.NaN;
    return special[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : undefined;
}

function shortest(value: number): Decimal {
  const [mantissa = '', power = '0'] = value.toExponential().split('e');
  return { digits: mantissa.replace('.', ''), exponent: Number(power) + 1 };
}

function positional(digits: string, exponent: number, withPoint: boolean): string {
  if (exponent <= 0) return `0.${'0'.repeat(-exponent)}${digits}`;
  const whole = digits.slice(0, exponent).padEnd(exponent, '0');
  const fraction = digits.slice(exponent);
  if (fraction !== '') return `${whole}.${fraction}`;
  return withPoint ? `${whole}.0` : whole;
}

function scientific(digits: string, power: number): string {
  const fraction = digits.slice(1);
  const sign = power < 0 ? '-' : '+';
  const size = String(Math.abs(power)).padStart(2, '0');
  return `${digits.charAt(0)}${fraction === '' ? '' : `.${fraction}`}e${sign}${size}`;
}

/** All digits of a double: it is a whole number of powers of two. */
function exactDecimal(value: number): Decimal {
  if (value === 0) return { digits: '0', exponent: 1 };
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const biased = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  const mantissa = biased === 0 ? fraction : fraction | 0x10000000000000n;
  const power = (biased === 0 ? 1 : biased) - 1075;
  const scaled = power >= 0 ? mantissa << BigInt(power) : mantissa * 5n ** BigInt(-power);
  const digits = scaled.toString();
  return { digits, exponent: digits.length + Math.min(0, power) };
}

/** Rounds half to even, to that many digits; none or fewer leave 0 or 1. */
function roundTo({ digits, exponent }: Decimal, count: number): Decimal {
  if (count >= digits.length) return { digits, exponent };
  if (count < 0) return { digits: '', exponent: exponent - count };
  const rest = digits.slice(count);
  const kept = digits.slice(0, count);
  if (!roundsUp(rest, kept)) return { digits: kept, exponent };
  const raised = (BigInt(kept || '0') + 1n).toString().padStart(count, '0');
  if (raised.length <= count) return { digits: raised, exponent };
  return { digits: count === 0 ? raised : raised.slice(0, count), exponent: exponent + 1 };
}

function roundsUp(rest: string, kept: string): boolean {
  const [first = '0'] = rest;
  if (first !== '5') return first > '5';
  if (/[1-9]/.test(rest.slice(1))) return true;
  return Number(kept.at(-1) ?? '0') % 2 === 1;
}

/** Parses and prints floats like Python. */

import { trimEnd } from '#runtime';

/** Decimal digits of a number without sign: 0.d1d2d3… × 10^exponent. */
interface Decimal {
  readonly digits: string;
  readonly exponent: number;
}

/** Implements `repr()` of a float. */
export function floatRepr(value: number): string {
  const special = nonFiniteRepr(value);
  if (special !== undefined) return special;
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const { digits, exponent } = shortest(Math.abs(value));
  const sign = value < 0 ? '-' : '';
  if (exponent > 16 || exponent < -3) return `${sign}${scientific(digits, exponent - 1)}`;
  return `${sign}${positional(digits, exponent, true)}`;
}

/** Returns `inf`, `-inf` or `nan`, or `undefined` for a finite number. */
export function nonFiniteRepr(value: number): string | undefined {
  if (Number.isNaN(value)) return 'nan';
  if (Number.isFinite(value)) return undefined;
  return value > 0 ? 'inf' : '-inf';
}

/** Formats like `'%.<precision>f'` without the sign, rounded half to even as in C. */
export function formatFixed(value: number, precision: number): string {
  const exact = exactDecimal(Math.abs(value));
  const { digits, exponent } = roundTo(exact, exact.exponent + precision);
  const whole = exponent > 0 ? digits.slice(0, exponent).padEnd(exponent, '0') : '0';
  const fraction = exponent > 0 ? digits.slice(exponent) : '0'.repeat(-exponent) + digits;
  return precision === 0
    ? whole
    : `${whole}.${fraction.slice(0, precision).padEnd(precision, '0')}`;
}

/** Formats like `'%.<precision>e'` without the sign. */
export function formatExponential(value: number, precision: number): string {
  const { digits, exponent } = roundTo(exactDecimal(Math.abs(value)), precision + 1);
  const padded = digits.padEnd(precision + 1, '0');
  return scientific(padded, value === 0 ? 0 : exponent - 1);
}

/** Formats like `'%.<precision>g'` without the sign. `keepZeros` is the flag `#`. */
export function formatGeneral(value: number, precision: number, keepZeros: boolean): string {
  const significant = Math.max(1, precision);
  const { digits, exponent } = roundTo(exactDecimal(Math.abs(value)), significant);
  const power = value === 0 ? 0 : exponent - 1;
  const kept = keepZeros ? digits.padEnd(significant, '0') : trimEnd(digits, '0') || '0';
  if (power < -4 || power >= significant) return scientific(kept, power);
  return positional(kept, power + 1, false);
}

/** Implements `float(text)`. Returns `undefined` where Python raises `ValueError`. */
export function parseFloatText(text: string): number | undefined {
  const plain = text.trim().replace(/(?<=\d)_(?=\d)/g, '');
  const special = /^([+-]?)(inf|infinity|nan)$/i.exec(plain);
  if (special !== null) {
    if (special[2]?.toLowerCase() === 'nan') return Number.NaN;
    return special[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }
  return /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : undefined;
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

/**
 * Returns all decimal digits of a double. Their number is finite, because a double is an integer
 * times a power of two.
 */
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

/**
 * Rounds a number half to even to `count` digits. If `count` is 0, the result is zero, or the digit
 * 1 if the number is rounded up. If `count` is negative, the result is zero.
 */
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

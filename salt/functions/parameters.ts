/** Parameters of runners and wheel functions: named, typed, with defaults. */

import { isWireMap, plainNumber, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { Float } from '#template/python/values.ts';

/** One parameter of a function. Parameters are positional in the order of the record. */
export interface Parameter<T> {
  /** Description of the valid values, for error messages. */
  readonly expected: string;
  readonly isRequired: boolean;
  /** Returns the parsed value, or `undefined` if it is invalid. */
  readonly parse: (value: WireValue) => T | undefined;
  /** Default value, or `undefined` if the parameter must be given. */
  readonly fallback: T | undefined;
}

/** Parameters of a function by name, in order. */
export type Parameters = Readonly<Record<string, Parameter<unknown>>>;

/** Parsed values of parameters. */
export type ValuesOf<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer T> ? T : never;
};

/** Type of a parameter: its parser and its description. */
export interface Kind<T> {
  readonly expected: string;
  readonly parse: (value: WireValue) => T | undefined;
}

/**
 * Type of parameters that accept text. Numbers are also accepted, because a word of a command line
 * may look like a number.
 */
export const text: Kind<string> = {
  expected: 'text',
  parse: (value) => {
    if (typeof value === 'string') return value;
    if (value instanceof Float) return pythonStr(value);
    return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
  },
};

export const flag: Kind<boolean> = {
  expected: 'True or False',
  parse: (value) => (typeof value === 'boolean' ? value : undefined),
};

/** Type of parameters that accept a non-negative whole number. */
export const count: Kind<number> = {
  expected: 'a whole number',
  parse: (given) => {
    const value = plainNumber(given);
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
      ? value
      : undefined;
  },
};

/** Type of parameters that accept a non-negative number of seconds. */
export const seconds: Kind<number> = {
  expected: 'a number of seconds',
  parse: (given) => {
    const value = plainNumber(given);
    return typeof value === 'number' && value >= 0 ? value : undefined;
  },
};

/** Maximum number of names in one argument. */
const maxNames = 10_000;

/** Type of parameters that accept names, as a list of texts or as one text with commas. */
export const names: Kind<readonly string[]> = {
  expected: `a list of at most ${maxNames} names, or such names separated by commas`,
  parse: (value) => {
    if (typeof value === 'string') {
      const list = value.split(',', maxNames + 1).map((name) => name.trim());
      return list.length > maxNames ? undefined : list;
    }
    const isList =
      Array.isArray(value) &&
      value.length <= maxNames &&
      value.every((item) => typeof item === 'string');
    return isList ? value : undefined;
  },
};

/** Type of parameters that accept a target, as text or as a list of texts. */
export const target: Kind<string | readonly string[]> = {
  expected: 'a target, as text or as a list of ids',
  parse: (value) => {
    const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
    return isList ? value : text.parse(value);
  },
};

/** Type of parameters that accept a map with text keys. */
export const map: Kind<WireMap> = {
  expected: 'a map',
  parse: (value) => (isWireMap(value) ? value : undefined),
};

/** Type of parameters that accept any value. */
export const anything: Kind<WireValue> = { expected: 'a value', parse: (value) => value };

/** Declares a parameter that must be given. */
export function required<T>(kind: Kind<T>): Parameter<T> {
  return { ...kind, isRequired: true, fallback: undefined };
}

/** Declares a parameter with a default. `None` also selects the default. */
export function optional<T>(kind: Kind<T>, fallback: NoInfer<T>): Parameter<T>;
export function optional<T>(kind: Kind<T>): Parameter<T | undefined>;
export function optional<T>(kind: Kind<T>, fallback?: T): Parameter<T | undefined> {
  return { ...kind, isRequired: false, fallback };
}

/** Parameter that Salt has and this master accepts without any effect. */
export const ignored: Parameter<WireValue | undefined> = optional(anything);

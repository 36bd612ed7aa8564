/** Parameters of runners and wheel functions: named, typed, with defaults. */

import { isWireMap, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { Float } from '#template/python/values.ts';

/** One parameter. Its place in the record of parameters is its place among positional ones. */
export interface Parameter<T> {
  /** What is expected, in words. */
  readonly expected: string;
  readonly isRequired: boolean;
  /** The value in its final form; `undefined` when it is not one. */
  readonly parse: (value: WireValue) => T | undefined;
  /** Used where nothing is given. */
  readonly fallback: T | undefined;
}

/** The parameters of a function by name, in their order. */
export type Parameters = Readonly<Record<string, Parameter<unknown>>>;

/** The values of parameters. */
export type ValuesOf<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer T> ? T : never;
};

/** How a value is read. */
export interface Kind<T> {
  readonly expected: string;
  readonly parse: (value: WireValue) => T | undefined;
}

/** Text; numbers count, because a word of a command line may look like one. */
export const text: Kind<string> = {
  expected: 'text',
  parse: (value) => {
    if (typeof value === 'string') return value;
    if (value instanceof Float) return pythonStr(value);
    return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
  },
};

/** True or false. */
export const flag: Kind<boolean> = {
  expected: 'True or False',
  parse: (value) => (typeof value === 'boolean' ? value : undefined),
};

/** A whole number from 0 on. */
export const count: Kind<number> = {
  expected: 'a whole number',
  parse: (value) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined,
};

/** Seconds. */
export const seconds: Kind<number> = {
  expected: 'a number of seconds',
  parse: (given) => {
    const value = given instanceof Float ? given.value : given;
    return typeof value === 'number' && value >= 0 ? value : undefined;
  },
};

/** Names: a list of texts, or one text with commas. */
export const names: Kind<readonly string[]> = {
  expected: 'a list of names, or names with commas between them',
  parse: (value) => {
    if (typeof value === 'string') return value.split(',').map((name) => name.trim());
    const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
    return isList ? value : undefined;
  },
};

/** Text, or a list of texts. */
export const target: Kind<string | readonly string[]> = {
  expected: 'a target, as text or as a list of ids',
  parse: (value) => {
    const isList = Array.isArray(value) && value.every((item) => typeof item === 'string');
    return isList ? value : text.parse(value);
  },
};

/** A map with text keys. */
export const map: Kind<WireMap> = {
  expected: 'a map',
  parse: (value) => (isWireMap(value) ? value : undefined),
};

/** Anything. */
export const anything: Kind<WireValue> = { expected: 'a value', parse: (value) => value };

/** It must be given. */
export function required<T>(kind: Kind<T>): Parameter<T> {
  return { ...kind, isRequired: true, fallback: undefined };
}

/** It has a default, and `None` means that. */
export function optional<T>(kind: Kind<T>, fallback: NoInfer<T>): Parameter<T>;
export function optional<T>(kind: Kind<T>): Parameter<T | undefined>;
export function optional<T>(kind: Kind<T>, fallback?: T): Parameter<T | undefined> {
  return { ...kind, isRequired: false, fallback };
}

/** Salt has it, and it changes nothing here. */
export const ignored: Parameter<WireValue | undefined> = optional(anything);

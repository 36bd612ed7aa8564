/**
 * Collects all errors in a value, with a parser that stops at the first error. After each error,
 * the rejected part is removed and the rest is parsed again.
 */

import type { ValuePath } from '#runtime';
import type { DefinitionMistake } from './errors.ts';

/** Parsed value, or all errors that were found. */
export interface LenientlyRead<T> {
  /** Parsed value. Absent if there are errors. */
  readonly read?: T;
  readonly mistakes: readonly DefinitionMistake[];
}

/**
 * Maximum number of attempts to parse. After each failed attempt, at least one invalid part is
 * removed from the value.
 */
const maxRounds = 50;

/**
 * Parses a value, and collects all errors.
 * @param read - parses the value; throws if a part is invalid
 * @param mistakesOf - returns the errors in a thrown value
 */
export function readLeniently<T>(
  value: unknown,
  read: (value: unknown) => T,
  mistakesOf: (error: unknown) => readonly DefinitionMistake[],
): LenientlyRead<T> {
  const mistakes: DefinitionMistake[] = [];
  const leftOut: ValuePath[] = [];
  let rest = value;
  for (let round = 0; round < maxRounds; round++) {
    try {
      const done = read(rest);
      return mistakes.length === 0 ? { read: done, mistakes } : { mistakes };
    } catch (error) {
      const found = mistakesOf(error).map((it) => asWritten(value, it));
      const before = rest;
      mistakes.push(...found.filter((it) => !leftOut.some((path) => mayFollow(it, path))));
      leftOut.push(...found.map(({ path }) => presentPart(before, path)));
      const shorter = found.reduce(correct, rest);
      if (shorter === rest) break;
      rest = shorter;
    }
  }
  return { mistakes };
}

/**
 * Whether an error may exist only because an earlier step removed an invalid part of the value.
 * Such an error must not be reported.
 * @param leftOut - path of the removed part
 */
function mayFollow({ path, problem }: DefinitionMistake, leftOut: ValuePath): boolean {
  const isAbove = path.length <= leftOut.length;
  if (isAbove && path.every((step, at) => step === leftOut[at])) return true;
  const name = String(leftOut.at(-1));
  const words = problem.split(/[^\w-]+/);
  // Messages use the singular, for example `parameter` for the field `parameters`.
  const isField = leftOut.length === 1 && words.includes(name.replace(/s$/, ''));
  return isField || words.includes(name);
}

/** Names of fields in definition files, by the names of the same fields in TypeScript. */
const writtenNames: ReadonlyMap<string | number, string> = new Map([
  ['timeoutSeconds', 'timeout'],
  ['perTarget', 'per_target'],
  ['batchSize', 'batch_size'],
  ['maxFailures', 'max_failures'],
  ['onFailure', 'on_failure'],
]);

/**
 * Converts the TypeScript names of fields in an error to the names in definition files, for example
 * `onFailure` to `on_failure`. In the error's path, names that `value` itself contains are not
 * converted.
 */
function asWritten(value: unknown, { path, problem, meant }: DefinitionMistake): DefinitionMistake {
  let within = value;
  const written = path.map((step) => {
    const name = hasMember(within, step) ? step : (writtenNames.get(step) ?? step);
    within = memberOf(within, name);
    return name;
  });
  const name = meant === undefined ? undefined : writtenNames.get(meant);
  if (meant === undefined || name === undefined) return { path: written, problem, meant };
  return {
    path: written,
    problem: problem.replace(`mean ${meant}?`, `mean ${name}?`),
    meant: name,
  };
}

/** Returns the longest prefix of a path that exists in a value. */
function presentPart(value: unknown, path: ValuePath): ValuePath {
  const missing = path.findIndex((step, at) => !hasMember(valueAt(value, path.slice(0, at)), step));
  return missing === -1 ? path : path.slice(0, missing);
}

/** Returns the value at a path. */
export function valueAt(value: unknown, path: ValuePath): unknown {
  return path.reduce(memberOf, value);
}

function hasMember(value: unknown, step: string | number): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, step);
}

function memberOf(value: unknown, step: string | number): unknown {
  if (Array.isArray(value)) return value[Number(step)];
  return hasMember(value, step)
    ? new Map(Object.entries(Object(value))).get(String(step))
    : undefined;
}

/**
 * Returns a copy of a value without the invalid part that an error reports. If the part is a field
 * with a misspelt name, `meant` is the correct name, and the field is renamed instead of removed.
 * Returns the same value if the path of the error does not exist.
 */
function correct(value: unknown, { path, meant }: DefinitionMistake): unknown {
  const [step, ...rest] = path;
  if (step === undefined || !hasMember(value, step)) return value;
  const member = memberOf(value, step);
  const inner = correct(member, { path: rest, problem: '', meant });
  if (Array.isArray(value)) {
    return inner === member ? value.toSpliced(Number(step), 1) : value.with(Number(step), inner);
  }
  const isNamed = rest.length === 0 && meant !== undefined;
  const members = Object.entries(Object(value)).flatMap(([name, it]): [string, unknown][] => {
    if (name !== step) return [[name, it]];
    if (isNamed) return [[meant, it]];
    return inner === member ? [] : [[name, inner]];
  });
  return Object.fromEntries(members);
}

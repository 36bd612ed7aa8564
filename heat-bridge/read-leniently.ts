/** All that is wrong with a value: what is refused is left out, and the rest is read again. */

import type { ValuePath } from '#runtime';
import type { DefinitionMistake } from './errors.ts';

/** What was read, or what is wrong with it. */
export interface LenientlyRead<T> {
  /** Where nothing is wrong. */
  readonly read?: T;
  readonly mistakes: readonly DefinitionMistake[];
}

/** Each round leaves something out; nobody reads more mistakes of one value. */
const maxRounds = 50;

/**
 * @param read - throws for what it refuses
 * @param mistakesOf - what such an error tells, the first mistake or all of them
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

/** Whether something may be wrong only because something was left out. */
function mayFollow({ path, problem }: DefinitionMistake, leftOut: ValuePath): boolean {
  const isAbove = path.length <= leftOut.length;
  if (isAbove && path.every((step, at) => step === leftOut[at])) return true;
  const name = String(leftOut.at(-1));
  const words = problem.split(/[^\w-]+/);
  // Problems speak of a `parameter` where the field is `parameters`.
  const isField = leftOut.length === 1 && words.includes(name.replace(/s$/, ''));
  return isField || words.includes(name);
}

/** Options of programs, as files call them. */
const writtenNames: ReadonlyMap<string | number, string> = new Map([
  ['timeoutSeconds', 'timeout'],
  ['perTarget', 'per_target'],
  ['batchSize', 'batch_size'],
  ['maxFailures', 'max_failures'],
  ['onFailure', 'on_failure'],
]);

/** A mistake with the names that files have. */
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

/** As much of a path as there is. */
function presentPart(value: unknown, path: ValuePath): ValuePath {
  const missing = path.findIndex((step, at) => !hasMember(valueAt(value, path.slice(0, at)), step));
  return missing === -1 ? path : path.slice(0, missing);
}

/** What a path leads to. */
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

/** Without what a mistake is about, or with the name that was probably meant. */
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

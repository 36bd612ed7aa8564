/** Reads the arguments of template functions. */

import type { PlainData } from '#template';
import { isPillarMap, type PillarMap } from './pillar-data.ts';

/** Arguments by name. */
export type Named = Readonly<Record<string, PlainData>>;

/** Adds named parameters to a function. Templates can pass each argument by position or by name. */
export function takes<T>(
  names: readonly string[],
  call: (given: Named) => T,
): (args: readonly PlainData[], kwargs: Named) => T {
  return (args, kwargs) => {
    if (args.length > names.length) {
      throw new TypeError(`too many arguments: this function accepts at most ${names.length}`);
    }
    for (const name of Object.keys(kwargs)) {
      if (!names.includes(name)) {
        throw new TypeError(`unknown argument ${name}; the function accepts ${names.join(', ')}`);
      }
    }
    const byPlace = args.map((value, index): [string, PlainData] => [names[index] ?? '', value]);
    return call({ ...Object.fromEntries(byPlace), ...kwargs });
  };
}

/**
 * Creates a function that has the given named parameters, and also accepts further keyword
 * arguments.
 */
export function takesMore<T>(
  names: readonly string[],
  call: (given: Named, more: Named) => T,
): (args: readonly PlainData[], kwargs: Named) => T {
  return (args, kwargs) => {
    const [own, more] = [true, false].map((isOwn) =>
      Object.fromEntries(Object.entries(kwargs).filter(([name]) => names.includes(name) === isOwn)),
    );
    return takes(names, (given) => call(given, more ?? {}))(args, own ?? {});
  };
}

export function text(value: PlainData | undefined, name: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`the argument \`${name}\` must be text`);
}

export function textOr(value: PlainData | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}

export function map(value: PlainData | undefined, name: string): PillarMap {
  if (isPillarMap(value)) return value;
  throw new TypeError(`the argument \`${name}\` must be a dictionary`);
}

/** Whether an argument was given with a value other than `None`. */
export function isGiven(value: PlainData | undefined): value is PlainData {
  return value !== undefined && value !== null;
}

/**
 * High data: the merged and validated content of SLS files, before it is compiled [salt/state.py].
 */

import { isDeepStrictEqual } from 'node:util';
import type { PlainData } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';

/** Returns the Python type name of a value. */
export function typeName(data: PlainData): string {
  if (data === null) return 'NoneType';
  if (typeof data === 'string') return 'str';
  if (typeof data === 'boolean') return 'bool';
  if (typeof data === 'number' || typeof data === 'bigint') return 'int';
  if (isList(data)) return 'list';
  return data instanceof Map ? 'dict' : 'float';
}

const globCharacters = /[*?[]/;

/** Whether a text is a glob that can match other names than itself. */
export function isGlob(text: string): boolean {
  return globCharacters.test(text);
}

/** Whether a name matches a glob, by the rules of `fnmatch`. */
export function matchesGlob(name: string, glob: string): boolean {
  return isGlob(glob) ? compileGlob(glob)(name) : name === glob;
}

/** Splits a function name like Salt: `a.b.c` gives `a` and `b`. */
export function splitFunction(name: string): readonly [state: string, fun: string] {
  const [state = '', fun = ''] = name.split('.');
  return [state, fun];
}

/** Content that an SLS declares under one id. */
export interface Body {
  /** Name of the SLS that contains the declaration. */
  readonly sls: string;
  /** Environment of the SLS that contains the declaration. */
  readonly saltenv: string;
  /** Names of the SLS that include the SLS of this declaration. */
  readonly includedFrom: readonly string[];
  /**
   * Arguments by state module, such as `test` or `salt`. A well-formed value is a list. It contains
   * a map for each argument, and the function's name as text.
   */
  readonly states: ReadonlyMap<string, PlainData>;
}

/** Entry of `extend` in an SLS: changes to an id that another SLS declares. */
export interface Extension {
  readonly id: PlainData;
  readonly body: Body;
}

/**
 * Merged content of several SLS. A declaration ({@link Body}) is never changed: `extend` creates a
 * new object.
 */
export interface High {
  readonly bodies: Map<PlainData, Body>;
  readonly extend: Extension[];
  /** SLS and ids to exclude: names of SLS, and maps `{sls: …}` or `{id: …}`. */
  readonly exclude: PlainData[];
}

export function emptyHigh(): High {
  return { bodies: new Map(), extend: [], exclude: [] };
}

/** Returns the arguments of a state, or an empty list if they are malformed. */
export function argumentsOf(body: Body | undefined, state: string): readonly PlainData[] {
  const said = body?.states.get(state);
  return isList(said) ? said : [];
}

/** Returns the first key and value of a map. Salt ignores the other keys of an argument. */
export function firstOf(argument: PlainData): readonly [key: string, value: PlainData] | undefined {
  if (!isPillarMap(argument)) return undefined;
  for (const [key, value] of argument) return [String(key), value];
  return undefined;
}

/** Returns the key and value of a map with exactly one key, otherwise `undefined`. */
export function singleOf(argument: PlainData): ReturnType<typeof firstOf> {
  return isPillarMap(argument) && argument.size === 1 ? firstOf(argument) : undefined;
}

export function mapOf(key: string, value: PlainData): PillarMap {
  return new Map([[key, value]]);
}

/**
 * Merges `added`, the content of one SLS, into `high`. Adds an error to `errors` for each id that
 * two SLS declare differently [merge_included_states].
 */
export function mergeHigh(high: High, added: High, errors: string[]): void {
  high.extend.push(...added.extend);
  high.exclude.push(...added.exclude);
  for (const [id, body] of added.bodies) {
    const known = high.bodies.get(id);
    if (known !== undefined && !isDeepStrictEqual(known, body)) {
      errors.push(
        'Detected conflicting IDs, SLS IDs need to be globally unique.\n' +
          `    The conflicting ID is '${String(id)}' and is found in SLS ` +
          `'${known.saltenv}:${known.sls}' and SLS '${body.saltenv}:${body.sls}'`,
      );
    }
    high.bodies.set(id, body);
  }
}

/** High data: what SLS contain, merged and validated before it is compiled [salt/state.py]. */

import { isDeepStrictEqual } from 'node:util';
import type { PlainData } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';

/** The name of its type in Python. */
export function typeName(data: PlainData): string {
  if (data === null) return 'NoneType';
  if (typeof data === 'string') return 'str';
  if (typeof data === 'boolean') return 'bool';
  if (typeof data === 'number' || typeof data === 'bigint') return 'int';
  if (isList(data)) return 'list';
  return data instanceof Map ? 'dict' : 'float';
}

const globCharacters = /[*?[]/;

/** Whether a name is meant by a glob, as `fnmatch` says. */
export function matchesGlob(name: string, glob: string): boolean {
  return globCharacters.test(glob) ? compileGlob(glob)(name) : name === glob;
}

/** `a.b.c` is `a` and `b`, as Salt takes the names of functions apart. */
export function splitFunction(name: string): readonly [state: string, fun: string] {
  const [state = '', fun = ''] = name.split('.');
  return [state, fun];
}

/** What is said of one id. */
export interface Body {
  /** The SLS that says it, and its environment. */
  readonly sls: string;
  readonly saltenv: string;
  /** SLS that include that one. */
  readonly includedFrom: readonly string[];
  /**
   * By state module, `test` or `salt`: where it is well formed, a list of arguments, each a map,
   * with the name of the function among them as text.
   */
  readonly states: ReadonlyMap<string, PlainData>;
}

/** What an SLS says of an id of another one. */
export interface Extension {
  readonly id: PlainData;
  readonly body: Body;
}

/** What several SLS say together. Bodies are never changed: what is extended is made anew. */
export interface High {
  readonly bodies: Map<PlainData, Body>;
  readonly extend: Extension[];
  /** Names of SLS, and maps `{sls: …}` or `{id: …}`. */
  readonly exclude: PlainData[];
}

export function emptyHigh(): High {
  return { bodies: new Map(), extend: [], exclude: [] };
}

/** The arguments that are said of a state; none where that is malformed. */
export function argumentsOf(body: Body | undefined, state: string): readonly PlainData[] {
  const said = body?.states.get(state);
  return isList(said) ? said : [];
}

/** The first key of a map, with its value: Salt looks at no other one of an argument. */
export function firstOf(argument: PlainData): readonly [key: string, value: PlainData] | undefined {
  if (!isPillarMap(argument)) return undefined;
  for (const [key, value] of argument) return [String(key), value];
  return undefined;
}

/** An argument of one key; `undefined` for any other. */
export function singleOf(argument: PlainData): ReturnType<typeof firstOf> {
  return isPillarMap(argument) && argument.size === 1 ? firstOf(argument) : undefined;
}

export function mapOf(key: string, value: PlainData): PillarMap {
  return new Map([[key, value]]);
}

/** Adds what one SLS says, and tells ids that two say different things of [merge_included_states]. */
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

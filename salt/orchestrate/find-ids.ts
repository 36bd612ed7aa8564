/** Finds the states to which a requisite or `extend` refers [salt/state.py find_name]. */

import { isDeepStrictEqual } from 'node:util';
import type { PlainData } from '#template';
import { argumentsOf, type High, singleOf } from './high-data.ts';

/** An id and a state that is declared under it. */
export interface DeclaredState {
  readonly id: PlainData;
  readonly state: string;
}

type Bodies = High['bodies'];

/**
 * Returns the states that a reference such as `state: name` means. If `name` is an id, returns the
 * state under this id. If `state` is `sls`, returns the first state of each id in this SLS.
 * Otherwise, returns the states that have an argument with this value, usually the argument `name`.
 * @param isStrict - whether an id `name` is used only if it declares a state of the module `state`
 */
export function findIds(
  bodies: Bodies,
  name: PlainData,
  state: string,
  isStrict: boolean,
): readonly DeclaredState[] {
  const body = bodies.get(name);
  if (body !== undefined && (!isStrict || body.states.has(state))) return [{ id: name, state }];
  if (state === 'sls') return statesOfSls(bodies, name).filter(isFirstOfItsId);
  const found: DeclaredState[] = [];
  for (const [id, other] of bodies) {
    for (const argument of argumentsOf(other, state)) {
      const said = singleOf(argument);
      if (said !== undefined && isDeepStrictEqual(said[1], name)) found.push({ id, state });
    }
  }
  return found;
}

/** Returns all states that one SLS declares [find_sls_ids]. */
export function statesOfSls(bodies: Bodies, sls: PlainData): readonly DeclaredState[] {
  return [...bodies]
    .filter(([, body]) => body.sls === sls)
    .flatMap(([id, body]) => [...body.states.keys()].map((state) => ({ id, state })));
}

/**
 * Returns the first state under the id `name`. If there is no such id, returns a state whose
 * argument `name` has this value, or `undefined`.
 */
export function stateOfName(bodies: Bodies, name: PlainData): DeclaredState | undefined {
  const [own] = bodies.get(name)?.states.keys() ?? [];
  if (own !== undefined) return { id: name, state: own };
  for (const [id, body] of bodies) {
    for (const state of body.states.keys()) {
      const isNamed = argumentsOf(body, state).some((argument) => {
        return argument instanceof Map && argument.get('name') === name;
      });
      if (isNamed) return { id, state };
    }
  }
  return undefined;
}

function isFirstOfItsId(
  { id }: DeclaredState,
  index: number,
  all: readonly DeclaredState[],
): boolean {
  return all.findIndex((other) => other.id === id) === index;
}

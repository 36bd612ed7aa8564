/** Finds the states to which a requisite or `extend` refers [salt/state.py find_name]. */

import { isDeepStrictEqual } from 'node:util';
import type { PlainData } from '#template';
import { argumentsOf, type Body, type High, singleOf } from './high-data.ts';

/** An id and a state that is declared under it. */
export interface DeclaredState {
  readonly id: PlainData;
  readonly state: string;
}

type Bodies = High['bodies'];

/** Number of arguments with one value, by the id of their state. */
type Counts = Map<PlainData, number>;

/**
 * Finds states by ids and by values of their arguments. The arguments are indexed once, so that a
 * search does not read all states.
 */
export class StateIndex {
  readonly #bodies: Bodies;
  /** Arguments by state module and value. `undefined` until a value is looked for. */
  #values: Map<string, Map<PlainData, Counts>> | undefined;

  constructor(bodies: Bodies) {
    this.#bodies = bodies;
  }

  /**
   * Returns the states that a reference such as `state: name` means. If `name` is an id, returns
   * the state under this id. If `state` is `sls`, returns the first state of each id in this SLS.
   * Otherwise, returns the states that have an argument with this value, usually the argument
   * `name`.
   * @param isStrict - whether an id `name` is used only if it declares a state of the module
   * `state`
   */
  find(name: PlainData, state: string, isStrict: boolean): readonly DeclaredState[] {
    const body = this.#bodies.get(name);
    if (body !== undefined && (!isStrict || body.states.has(state))) return [{ id: name, state }];
    if (state === 'sls') return statesOfSls(this.#bodies, name).filter(isFirstOfItsId);
    if (typeof name === 'object' && name !== null) return this.#scan(name, state);
    const found: DeclaredState[] = [];
    for (const [id, count] of this.#index().get(state)?.get(name) ?? []) {
      for (let i = 0; i < count; i += 1) found.push({ id, state });
    }
    return found;
  }

  /** Replaces the declaration under an id. */
  replace(id: PlainData, body: Body): void {
    const known = this.#bodies.get(id);
    if (known !== undefined) this.#count(id, known, -1);
    this.#bodies.set(id, body);
    this.#count(id, body, 1);
  }

  /** Finds an argument whose value is a list or a map, which the index does not contain. */
  #scan(value: PlainData, state: string): readonly DeclaredState[] {
    return [...this.#bodies].flatMap(([id, body]) =>
      argumentsOf(body, state)
        .filter((argument) => isDeepStrictEqual(singleOf(argument)?.[1], value))
        .map(() => ({ id, state })),
    );
  }

  #index(): Map<string, Map<PlainData, Counts>> {
    if (this.#values !== undefined) return this.#values;
    this.#values = new Map();
    for (const [id, body] of this.#bodies) this.#count(id, body, 1);
    return this.#values;
  }

  #count(id: PlainData, body: Body, change: 1 | -1): void {
    if (this.#values === undefined) return;
    for (const state of body.states.keys()) {
      const values = this.#values.get(state) ?? new Map<PlainData, Counts>();
      this.#values.set(state, values);
      for (const argument of argumentsOf(body, state)) {
        const value = singleOf(argument)?.[1];
        if (value === undefined || (typeof value === 'object' && value !== null)) continue;
        const counts = values.get(value) ?? new Map<PlainData, number>();
        values.set(value, counts);
        const count = (counts.get(id) ?? 0) + change;
        if (count === 0) counts.delete(id);
        else counts.set(id, count);
      }
    }
  }
}

/** Returns all states that one SLS declares [find_sls_ids]. The states of an id are adjacent. */
export function statesOfSls(bodies: Bodies, sls: PlainData): readonly DeclaredState[] {
  return [...bodies]
    .filter(([, body]) => body.sls === sls)
    .flatMap(([id, body]) => [...body.states.keys()].map((state) => ({ id, state })));
}

/** Returns the first state with each value of the argument `name`. */
export function statesByName(bodies: Bodies): ReadonlyMap<PlainData, DeclaredState> {
  const found = new Map<PlainData, DeclaredState>();
  for (const [id, body] of bodies) {
    for (const state of body.states.keys()) {
      for (const argument of argumentsOf(body, state)) {
        const name = argument instanceof Map ? argument.get('name') : undefined;
        if (name !== undefined && !found.has(name)) found.set(name, { id, state });
      }
    }
  }
  return found;
}

function isFirstOfItsId(
  { id }: DeclaredState,
  index: number,
  all: readonly DeclaredState[],
): boolean {
  return all[index - 1]?.id !== id;
}

/**
 * Implements the requisites that a state declares for other states (`require_in` and similar),
 * `use` and `prereq` [salt/state.py requisite_in].
 */

import type { PlainData } from '#template';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { applyExtensions } from './extensions.ts';
import { type DeclaredState, StateIndex, statesByName, statesOfSls } from './find-ids.ts';
import { argumentsOf, type Body, firstOf, type High, mapOf, singleOf } from './high-data.ts';

const turned: ReadonlySet<string> = new Set([
  'require_in',
  'watch_in',
  'onfail_in',
  'onchanges_in',
  'use',
  'use_in',
  'prereq',
  'prereq_in',
]);

/** Arguments that `use` does not copy from another state. */
const notUsed: ReadonlySet<string> = new Set([
  ...turned,
  'require',
  'watch',
  'onfail',
  'onfail_stop',
  'onchanges',
  'name',
  'names',
]);

/**
 * Applies `…_in` requisites, `use` and `prereq` by adding arguments to the states that they affect.
 * For example, if state `a` has `require_in: b`, state `b` gets `require: a`.
 * @returns errors in Salt's words
 */
export function turnRequisites(high: High): string[] {
  const turning = new Turning(high);
  for (const [id, body] of high.bodies) {
    for (const state of body.states.keys()) {
      for (const argument of argumentsOf(body, state)) {
        const [key, items] = firstOf(argument) ?? [];
        if (key !== undefined && items !== undefined && turned.has(key)) {
          turning.turn(key, items, { id, state, body });
        }
      }
    }
  }
  const extensions = Array.from(turning.added, ([id, body]) => ({ id, body }));
  return [...turning.errors, ...applyExtensions(high, extensions, true)];
}

/** State that declares a requisite for another state. */
interface Origin extends DeclaredState {
  readonly body: Body;
}

interface Addition {
  sls: string;
  saltenv: string;
  readonly includedFrom: readonly string[];
  readonly states: Map<string, PlainData[]>;
}

class Turning {
  readonly errors: string[] = [];
  readonly added = new Map<PlainData, Addition>();
  readonly #bodies: High['bodies'];
  readonly #index: StateIndex;
  /** States by the argument `name`. `undefined` until a name is looked for. */
  #byName: ReadonlyMap<PlainData, DeclaredState> | undefined;
  /** Items of the requisites that were added to a list of arguments, by kind. */
  readonly #items = new Map<PlainData[], Map<string, PlainData[]>>();

  constructor({ bodies }: High) {
    this.#bodies = bodies;
    this.#index = new StateIndex(bodies);
  }

  turn(key: string, items: PlainData, origin: Origin): void {
    const kind = key.split('_')[0] ?? key;
    if (isPillarMap(items)) {
      for (const [state, id] of items) {
        this.#require({ id, state: this.#plain(String(state), id, kind, origin) }, kind, origin);
      }
    } else if (isList(items)) {
      // Salt applies the preceding items again with each item, which only repeats requisites.
      for (const item of items) {
        for (const target of this.#targets(item, kind, origin)) this.#add(key, target, origin);
      }
    }
  }

  #targets(item: PlainData, kind: string, origin: Origin): readonly DeclaredState[] {
    if (!isPillarMap(item)) {
      const meant = this.#stateOfName(item);
      return meant === undefined ? [] : [meant];
    }
    const [state, id] = firstOf(item) ?? [];
    if (state === undefined || id === undefined) return [];
    if (state === 'sls') return statesOfSls(this.#bodies, id);
    // As in Salt, a dotted module name in a list is reported but not shortened.
    this.#plain(state, id, kind, origin);
    return [{ id, state }];
  }

  /**
   * Returns the module name of a requisite. Reports an error if the name also contains a function
   * (`module.function`).
   */
  #plain(state: string, id: PlainData, kind: string, { body }: Origin): string {
    const [module = ''] = state.split('.');
    if (module !== state) {
      this.errors.push(
        `Invalid requisite in ${kind}: ${state} for ${textOf(id)}, in SLS '${body.sls}'. ` +
          `Requisites must not contain dots, did you mean '${module}'?`,
      );
    }
    return module;
  }

  #add(key: string, target: DeclaredState, origin: Origin): void {
    switch (key) {
      case 'prereq':
        for (const found of this.#find(target)) this.#note(found, 'prerequired', origin, origin);
        break;
      case 'prereq_in':
        this.#note(origin, 'prerequired', target, origin);
        this.#require(target, 'prereq', origin);
        break;
      case 'use':
        for (const found of this.#find(target)) this.#use(found, origin, origin);
        break;
      case 'use_in':
        for (const found of this.#find(target)) this.#use(origin, found, origin);
        break;
      default:
        this.#require(target, key.split('_')[0] ?? key, origin);
    }
  }

  #find({ id, state }: DeclaredState): readonly DeclaredState[] {
    return this.#index.find(id, state, true);
  }

  /**
   * Returns the first state under the id `name`. If there is no such id, returns a state whose
   * argument `name` has this value, or `undefined`.
   */
  #stateOfName(name: PlainData): DeclaredState | undefined {
    const [own] = this.#bodies.get(name)?.states.keys() ?? [];
    if (own !== undefined) return { id: name, state: own };
    this.#byName ??= statesByName(this.#bodies);
    return this.#byName.get(name);
  }

  /**
   * Makes the state `target` depend on the state of `origin`.
   * @param kind - kind of the requisite that is added to `target`, for example `require`
   */
  #require(target: DeclaredState, kind: string, origin: Origin): void {
    const said = this.#said(target, origin);
    const addition = this.added.get(target.id);
    // As in Salt, errors name the SLS of the last requisite.
    if (addition !== undefined) {
      addition.sls = origin.body.sls;
      addition.saltenv = origin.body.saltenv;
    }
    const item = mapOf(origin.state, origin.id);
    const byKind = this.#items.get(said) ?? new Map<string, PlainData[]>();
    this.#items.set(said, byKind);
    const items = byKind.get(kind);
    if (items !== undefined) items.push(item);
    else {
      const added = [item];
      byKind.set(kind, added);
      said.push(mapOf(kind, added));
    }
  }

  #note(target: DeclaredState, kind: string, { id, state }: DeclaredState, origin: Origin): void {
    this.#said(target, origin).push(mapOf(kind, [mapOf(state, id)]));
  }

  /**
   * Implements the requisite `use`: copies arguments of the state `from` to the state `to`. Does
   * not copy names, requisites, and arguments that `to` sets itself.
   */
  #use(from: DeclaredState, to: DeclaredState, origin: Origin): void {
    const given = argumentsOf(this.#bodies.get(to.id), to.state);
    const own = new Set(given.map((argument) => singleOf(argument)?.[0]));
    const said = this.#said(to, origin);
    for (const argument of argumentsOf(this.#bodies.get(from.id), from.state)) {
      const [name] = singleOf(argument) ?? [];
      if (name !== undefined && !notUsed.has(name) && !own.has(name)) said.push(argument);
    }
  }

  #said({ id, state }: DeclaredState, { body: { sls, saltenv } }: Origin): PlainData[] {
    const known = this.added.get(id) ?? { sls, saltenv, includedFrom: [], states: new Map() };
    this.added.set(id, known);
    const said = known.states.get(state) ?? [];
    known.states.set(state, said);
    return said;
  }
}

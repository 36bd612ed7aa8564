/**
 * Requisites: whether a chunk may run, `require_in` and its like, `listen`
 * [salt/state.py check_requisite].
 */

import { MasterError } from '#master';
import type { PlainData } from '#template';
import { isList, isPillarMap, textOf } from '../render/pillar-data.ts';
import {
  applyExtensions,
  argumentsOf,
  type Body,
  type DeclaredState,
  findIds,
  firstOf,
  type High,
  mapOf,
  matchesGlob,
  requisiteKinds,
  singleOf,
  splitFunction,
  stateOfName,
  statesOfSls,
} from './high-data.ts';
import { type Chunk, hasChanges, type Results, type StateResult, tagOf } from './low-chunk.ts';

/** Kinds of requisites that decide whether a chunk runs, in the order of Salt. */
export const decisiveKinds: readonly RequisiteKind[] = [
  'require',
  'require_any',
  'watch',
  'watch_any',
  'prereq',
  'onfail',
  'onfail_any',
  'onfail_all',
  'onchanges',
  'onchanges_any',
];

/** With what only those have that are run before others. */
export const allKinds: readonly RequisiteKind[] = [...decisiveKinds, 'prerequired'];

/** How a chunk depends on another. */
export type RequisiteKind =
  | 'require'
  | 'require_any'
  | 'watch'
  | 'watch_any'
  | 'prereq'
  | 'onfail'
  | 'onfail_any'
  | 'onfail_all'
  | 'onchanges'
  | 'onchanges_any'
  | 'prerequired';

/** `{test: some id}`, `{id: some id}`, `{sls: some.sls}`. */
export interface Requisite {
  readonly kind: string;
  readonly name: string;
}

/** What a chunk says of a kind; a bare name means an id. */
export function requisitesOf({ args, name }: Chunk, kind: RequisiteKind): readonly Requisite[] {
  const said = args.get(kind);
  if (said === undefined || said === null) return [];
  return (isList(said) ? said : [said]).flatMap((item) => {
    const [key = 'id', value = null] = typeof item === 'string' ? ['id', item] : readItem(item);
    if (value === null) return [];
    if (typeof value !== 'string') throw strangeRequisite(key, name);
    return [{ kind: splitFunction(key)[0], name: value }];
  });
}

function readItem(item: PlainData): readonly [string?, PlainData?] {
  return firstOf(item) ?? [];
}

function strangeRequisite(key: string, name: PlainData): MasterError {
  const reason = `Could not locate requisite of [${key}] present in state with name [${textOf(name)}]`;
  return new MasterError('ERR_ORCHESTRATION', reason);
}

/** The chunks that a requisite means. */
export function meantBy({ kind, name }: Requisite, chunks: readonly Chunk[]): Chunk[] {
  if (kind === 'sls') {
    return chunks.filter(
      ({ sls, includedFrom }) => includedFrom.includes(name) || matchesGlob(sls ?? '', name),
    );
  }
  return chunks.filter(({ state, id, name: own }) => {
    if (kind !== 'id' && kind !== state) return false;
    return matchesGlob(id, name) || matchesGlob(textOf(own), name);
  });
}

/** The chunks that a chunk depends on, by kind. */
export type Dependencies = ReadonlyMap<RequisiteKind, readonly Chunk[]>;

/** `undefined`: one of them is not there. */
export function dependenciesOf(
  chunk: Chunk,
  chunks: readonly Chunk[],
  kinds: readonly RequisiteKind[],
): Dependencies | undefined {
  const dependencies = new Map<RequisiteKind, Chunk[]>();
  for (const kind of kinds) {
    const found = requisitesOf(chunk, kind).map((requisite) => meantBy(requisite, chunks));
    if (found.some(({ length }) => length === 0)) return undefined;
    dependencies.set(kind, found.flat());
  }
  return dependencies;
}

/** What follows for a chunk. */
export type Standing = 'met' | 'unmet' | 'fail' | 'pre' | 'onfail' | 'onchanges' | 'change';

/** What was found of one that it depends on. */
type Finding = Standing | 'premet' | 'onchangesmet';

/** What became of a chunk until now; `undefined`: it has not run. */
export type ResultOf = (kind: RequisiteKind, tag: string) => StateResult | undefined;

/** The results of all of them are there, where they have run. */
export function standingBy(dependencies: Dependencies, resultOf: ResultOf): Standing {
  const all = new Set<Finding>();
  for (const [kind, chunks] of dependencies) {
    const findings = new Set(chunks.flatMap((chunk) => find(kind, resultOf(kind, tagOf(chunk)))));
    weigh(kind, findings);
    for (const finding of findings) all.add(finding);
  }
  return conclude(all);
}

function find(kind: RequisiteKind, result: StateResult | undefined): readonly Finding[] {
  if (result === undefined) return ['unmet'];
  const { outcome } = result;
  if (kind.startsWith('onfail')) {
    if (outcome.result === true) return ['onfail'];
  } else if (outcome.result === false) return ['fail'];
  if (kind.startsWith('onchanges')) return [hasChanges(result) ? 'onchangesmet' : 'onchanges'];
  if (kind.startsWith('watch') && hasChanges(result)) return ['change'];
  const ran: readonly Finding[] = result.didRun ? ['met'] : [];
  if (kind !== 'prereq') return kind === 'prerequired' && outcome.result !== null ? [] : ran;
  return outcome.result === null ? ['premet', ...ran] : ['pre'];
}

/** Where one of several is enough, and where it is not. */
function weigh(kind: RequisiteKind, findings: Set<Finding>): void {
  if (kind.endsWith('_any') || kind === 'onfail') {
    if (findings.has('met') || findings.has('change')) findings.delete('fail');
    if (findings.has('onchangesmet')) {
      findings.delete('onchanges');
      findings.delete('fail');
    }
    if (findings.has('met')) findings.delete('onfail');
  }
  if (kind.endsWith('_all') && findings.has('onfail')) findings.delete('met');
}

function conclude(findings: ReadonlySet<Finding>): Standing {
  if (findings.has('unmet')) return 'unmet';
  if (findings.has('fail')) return 'fail';
  if (findings.has('pre')) return findings.has('premet') ? 'met' : 'pre';
  if (!findings.has('onchangesmet')) {
    if (findings.has('onfail')) return 'onfail';
    if (findings.has('onchanges')) return 'onchanges';
  }
  if (findings.has('change')) return 'change';
  return findings.has('onfail') ? 'onfail' : 'met';
}

// `require_in` and its like, `use` and `prereq` [salt/state.py requisite_in].

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

/** What `use` does not take over from another state. */
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

/** @returns what is wrong, in Salt's words */
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

/** Where such an argument is said. */
interface Origin extends DeclaredState {
  readonly body: Body;
}

interface Addition {
  readonly sls: string;
  readonly saltenv: string;
  readonly includedFrom: readonly string[];
  readonly states: Map<string, PlainData[]>;
}

class Turning {
  readonly errors: string[] = [];
  readonly added = new Map<PlainData, Addition>();
  readonly #bodies: High['bodies'];

  constructor({ bodies }: High) {
    this.#bodies = bodies;
  }

  turn(key: string, items: PlainData, origin: Origin): void {
    const kind = key.split('_')[0] ?? key;
    if (isPillarMap(items)) {
      for (const [state, id] of items) {
        this.#require({ id, state: this.#plain(String(state), id, kind, origin) }, kind, origin);
      }
    } else if (isList(items)) {
      for (const item of items) {
        for (const target of this.#targets(item, kind, origin)) this.#add(key, target, origin);
      }
    }
  }

  #targets(item: PlainData, kind: string, origin: Origin): readonly DeclaredState[] {
    if (!isPillarMap(item)) {
      const meant = stateOfName(this.#bodies, item);
      return meant === undefined ? [] : [meant];
    }
    const [state, id] = firstOf(item) ?? [];
    if (state === undefined || id === undefined) return [];
    if (state === 'sls') return statesOfSls(this.#bodies, id);
    // As in Salt, a list is not mended.
    this.#plain(state, id, kind, origin);
    return [{ id, state }];
  }

  /** A requisite names a module; a function after it is a fault. */
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
    return findIds(this.#bodies, id, state, true);
  }

  /** One list of a kind for each state, however many add to it. */
  #require(target: DeclaredState, kind: string, origin: Origin): void {
    const said = this.#said(target, origin);
    const item = mapOf(origin.state, origin.id);
    const at = said.findIndex((argument) => firstOf(argument)?.[0] === kind);
    const present = said[at];
    if (!isPillarMap(present)) said.push(mapOf(kind, [item]));
    else {
      const items = present.get(kind);
      said[at] = mapOf(kind, [...(isList(items) ? items : []), item]);
    }
  }

  #note(target: DeclaredState, kind: string, { id, state }: DeclaredState, origin: Origin): void {
    this.#said(target, origin).push(mapOf(kind, [mapOf(state, id)]));
  }

  /** The arguments of one state for another that does not say them itself. */
  #use(from: DeclaredState, to: DeclaredState, origin: Origin): void {
    const own = argumentsOf(this.#bodies.get(to.id), to.state).map((it) => singleOf(it)?.[0]);
    const said = this.#said(to, origin);
    for (const argument of argumentsOf(this.#bodies.get(from.id), from.state)) {
      const [name] = singleOf(argument) ?? [];
      if (name !== undefined && !notUsed.has(name) && !own.includes(name)) said.push(argument);
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

// `listen` [salt/state.py call_listen].

/** What is to be called, and what refers to a state that is not there. */
export interface Listening {
  readonly chunks: readonly Chunk[];
  readonly errors: ReadonlyMap<string, StateResult>;
}

/** A state as `listen` names it: its module, and its id or its name. */
interface Reference {
  readonly state: string;
  readonly name: string;
}

/** Who listens to what. */
interface Listener {
  readonly listener: Reference;
  readonly to: PlainData;
}

export function listenersOf(chunks: readonly Chunk[], results: Results): Listening {
  const called: Chunk[] = [];
  const errors = new Map<string, StateResult>();
  const find = (reference: Reference): readonly Chunk[] => {
    const found = chunks.filter((chunk) => isMeant(reference, chunk));
    if (found.length === 0) noteMissing(errors, reference);
    return found;
  };
  for (const { listener, to } of chunks.flatMap(readListeners)) {
    for (const reference of referencesOf(to, chunks)) {
      const changed = find(reference).filter((chunk) => {
        const result = results.get(tagOf(chunk));
        return result !== undefined && hasChanges(result);
      });
      for (const _ of changed) called.push(...find(listener).map(toWatch));
    }
  }
  return { chunks: called, errors };
}

function readListeners({ state, id, args }: Chunk): Listener[] {
  const own = { state, name: id };
  const listens = listOf(args.get('listen')).map((to) => ({ listener: own, to }));
  const told = listOf(args.get('listen_in')).flatMap((item) =>
    mapEntries(item).map((listener) => ({ listener, to: new Map([[state, id]]) })),
  );
  return [...listens, ...told];
}

function referencesOf(to: PlainData, chunks: readonly Chunk[]): readonly Reference[] {
  if (isPillarMap(to)) return mapEntries(to);
  const found = chunks.findLast(({ id, name }) => id === to || name === to);
  return found === undefined ? [] : [{ state: found.state, name: found.id }];
}

function mapEntries(item: PlainData): Reference[] {
  if (!isPillarMap(item)) return [];
  return Array.from(item, ([state, name]) => ({ state: textOf(state), name: textOf(name) }));
}

function isMeant({ state, name }: Reference, chunk: Chunk): boolean {
  return chunk.state === state && (chunk.id === name || chunk.name === name);
}

function toWatch(chunk: Chunk): Chunk {
  const args = [...chunk.args].filter(([name]) => !requisiteKinds.has(name));
  return { ...chunk, fun: 'mod_watch', id: `listener_${chunk.id}`, args: new Map(args) };
}

function noteMissing(errors: Map<string, StateResult>, { state, name }: Reference): void {
  const tag = `Listen_Error_|-listen_${name}_|-listen_${state}_|-Listen_Error`;
  const comment = `Referenced state ${state}: ${name} does not exist`;
  errors.set(tag, {
    name: `listen_${state}:${name}`,
    outcome: { result: false, changes: {}, comment },
    facts: {},
    didRun: true,
  });
}

function listOf(value: PlainData | undefined): readonly PlainData[] {
  return isList(value) ? value : [];
}

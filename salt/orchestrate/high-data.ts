/** High data: what SLS contain, merged and validated before it is compiled [salt/state.py]. */

import { isDeepStrictEqual } from 'node:util';
import type { PlainData } from '#template';
import { compileGlob } from '#template/python/fnmatch.ts';
import { isList, isPillarMap, type PillarMap, textOf } from '../render/pillar-data.ts';
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

// One SLS: ids and special keys [salt/state.py _handle_state_decls].

/** Which SLS is read. */
export interface SlsPlace {
  readonly sls: string;
  readonly saltenv: string;
}

/** What one SLS says. */
export interface ReadSls extends High {
  readonly include: readonly PlainData[];
}

/** @param errors what is wrong is added to them, in Salt's words */
export function readDeclarations(data: PillarMap, place: SlsPlace, errors: string[]): ReadSls {
  const high = emptyHigh();
  const ids = new Map(data);
  const include = takeInclude(ids, place, errors);
  takeExtend(ids, place, high, errors);
  takeExclude(ids, place, high, errors);
  for (const [id, said] of ids) {
    const body = readBody(id, said, place, errors);
    if (body !== undefined) high.bodies.set(id, body);
  }
  return { ...high, include };
}

type Ids = Map<PlainData, PlainData>;

function take(ids: Ids, key: string): PlainData | undefined {
  const value = ids.get(key);
  ids.delete(key);
  return value;
}

function takeInclude(ids: Ids, { sls }: SlsPlace, errors: string[]): readonly PlainData[] {
  const include = ids.get('include');
  if (include === undefined) return [];
  if (isList(include)) {
    ids.delete('include');
    return include;
  }
  errors.push(`Include Declaration in SLS ${sls} is not formed as a list`);
  return [];
}

function takeExtend(ids: Ids, place: SlsPlace, high: High, errors: string[]): void {
  const extend = take(ids, 'extend');
  if (extend === undefined) return;
  if (!isPillarMap(extend)) {
    errors.push(`Extension value in SLS '${place.sls}' is not a dictionary`);
    return;
  }
  for (const [id, said] of extend) {
    if (isPillarMap(said)) high.extend.push({ id, body: bodyOf(said, place) });
    else errors.push(`Extension name '${textOf(id)}' in SLS '${place.sls}' is not a dictionary`);
  }
}

function takeExclude(ids: Ids, { sls }: SlsPlace, high: High, errors: string[]): void {
  const exclude = take(ids, 'exclude');
  if (exclude === undefined) return;
  if (isList(exclude)) high.exclude.push(...exclude);
  else errors.push(`Exclude Declaration in SLS ${sls} is not formed as a list`);
}

function readBody(
  id: PlainData,
  said: PlainData,
  place: SlsPlace,
  errors: string[],
): Body | undefined {
  if (isPillarMap(said)) return bodyOf(said, place, () => errors.push(severalOf(id, place)));
  if (typeof said === 'string' && said.includes('.')) {
    const [state, fun] = splitFunction(said);
    return { ...place, includedFrom: [], states: new Map([[state, [fun]]]) };
  }
  errors.push(`ID ${textOf(id)} in SLS ${place.sls} is not a dictionary`);
  return undefined;
}

function severalOf(id: PlainData, { sls }: SlsPlace): string {
  return `ID '${textOf(id)}' in SLS '${sls}' contains multiple state declarations of the same type`;
}

/** `test.nop: [args]` as `test: [args, nop]`. */
function bodyOf(said: PillarMap, place: SlsPlace, onSeveral: () => void = () => {}): Body {
  const states = new Map(Array.from(said, ([key, value]) => [textOf(key), value]));
  const seen = new Set<string>();
  for (const [key, declared] of [...states]) {
    if (key.startsWith('_') || !isList(declared)) continue;
    if (!key.includes('.')) {
      seen.add(key);
      continue;
    }
    const [state, fun] = splitFunction(key);
    if (seen.has(state)) {
      onSeveral();
      continue;
    }
    states.delete(key);
    states.set(state, [...declared, fun]);
    seen.add(state);
  }
  return { ...place, includedFrom: [], states };
}

// `exclude` [salt/state.py apply_exclude].

export function applyExclude({ bodies, exclude }: High): void {
  const ids = new Set<PlainData>();
  const patterns: string[] = [];
  for (const item of exclude) {
    if (typeof item === 'string') patterns.push(item);
    if (!isPillarMap(item) || item.size !== 1) continue;
    const [sls, id] = [item.get('sls'), item.get('id')];
    if (typeof sls === 'string') patterns.push(sls);
    if (id !== undefined) ids.add(id);
  }
  for (const [id, { sls }] of bodies) {
    if (patterns.some((pattern) => matchesGlob(sls, pattern))) ids.add(id);
  }
  for (const id of ids) bodies.delete(id);
}

// Ids that a requisite or `extend` refers to [salt/state.py find_name].

/** An id with a state that is declared under it. */
export interface DeclaredState {
  readonly id: PlainData;
  readonly state: string;
}

type Bodies = High['bodies'];

/**
 * By id, else by any argument that says the same, which mostly is `name`.
 * @param isStrict an id counts only where this state is declared under it
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

/** All that an SLS declares [find_sls_ids]. */
export function statesOfSls(bodies: Bodies, sls: PlainData): readonly DeclaredState[] {
  return [...bodies]
    .filter(([, body]) => body.sls === sls)
    .flatMap(([id, body]) => [...body.states.keys()].map((state) => ({ id, state })));
}

/** The id that a bare name means: its own, or that of a state which has it as `name`. */
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

// `extend` [salt/state.py reconcile_extend].

/**
 * @param isStrict see {@link findIds}
 * @returns what is wrong, in Salt's words
 */
export function applyExtensions(
  high: High,
  extensions: readonly Extension[],
  isStrict: boolean,
): string[] {
  const errors: string[] = [];
  const excluded = new Set(high.exclude.map(excludedSls));
  for (const { id, body } of extensions) {
    const target = targetOf(high, id, body, isStrict);
    if (target === undefined) {
      errors.push(nothingToExtend(id, body));
      continue;
    }
    if (excluded.has(body.sls)) continue;
    const known = high.bodies.get(target);
    if (known !== undefined) high.bodies.set(target, extended(known, body));
  }
  return errors;
}

function targetOf(
  { bodies }: High,
  id: PlainData,
  body: Body,
  isStrict: boolean,
): PlainData | undefined {
  const [state = ''] = body.states.keys();
  if (bodies.get(id)?.states.has(state)) return id;
  const [only, ...more] = findIds(bodies, id, state, isStrict);
  return more.length === 0 ? only?.id : undefined;
}

function nothingToExtend(id: PlainData, { saltenv, sls }: Body): string {
  const name = textOf(id);
  return (
    `Cannot extend ID '${name}' in '${saltenv}:${sls}'. It is not part of the high state.\n` +
    'This is likely due to a missing include statement or an incorrectly typed ID.\n' +
    `Ensure that a state with an ID of '${name}' is available\n` +
    `in environment '${saltenv}' and to SLS '${sls}'`
  );
}

function excludedSls(item: PlainData): PlainData {
  return isPillarMap(item) ? (item.get('sls') ?? null) : item;
}

function extended(known: Body, { states: added }: Body): Body {
  const states = new Map(known.states);
  for (const [state, said] of added) {
    const own = states.get(state);
    states.set(state, isList(own) && isList(said) ? said.reduce(withArgument, own) : said);
  }
  return { ...known, states };
}

/** The argument in the place of what it overrides; requisites are joined. */
function withArgument(own: readonly PlainData[], argument: PlainData): readonly PlainData[] {
  let isPlaced = false;
  const placed = own.map((present) => {
    const replaced = override(present, argument);
    if (replaced === undefined) return present;
    isPlaced ||= replaced.isPlaced;
    return replaced.value;
  });
  return isPlaced ? placed : [...placed, argument];
}

function override(
  present: PlainData,
  argument: PlainData,
): { readonly value: PlainData; readonly isPlaced: boolean } | undefined {
  if (typeof present === 'string' && typeof argument === 'string') {
    return { value: argument, isPlaced: true };
  }
  const [own, given] = [firstOf(present), firstOf(argument)];
  if (own === undefined || given === undefined) return undefined;
  if (own[0] === given[0]) return { value: joined(present, argument, given[0]), isPlaced: true };
  // A name in the place of names is there twice in Salt, too.
  return given[0] === 'name' && own[0] === 'names'
    ? { value: argument, isPlaced: false }
    : undefined;
}

function joined(present: PlainData, argument: PlainData, key: string): PlainData {
  if (!requisiteKinds.has(key) || !isPillarMap(present) || !isPillarMap(argument)) return argument;
  return new Map([...present, [key, [...itemsOf(present, key), ...itemsOf(argument, key)]]]);
}

function itemsOf(argument: PillarMap, key: string): readonly PlainData[] {
  const items = argument.get(key);
  return isList(items) ? items : [];
}

// Validation, with Salt's messages [salt/state.py verify_high].

export function verifyHigh({ bodies }: High): string[] {
  const circles = new Circles();
  return [...bodies].flatMap(([id, body]) => [
    ...verifyId(id, body),
    ...[...body.states].flatMap(([state, said]) =>
      new Declaration({ id: textOf(id), sls: body.sls, state }, circles).verify(said),
    ),
  ]);
}

function verifyId(id: PlainData, { sls }: Body): string[] {
  if (typeof id === 'string') return [];
  return [
    `ID '${textOf(id)}' in SLS '${sls}' is not formed as a string, but is a ${typeName(id)}. ` +
      'It may need to be quoted.',
  ];
}

/** Where a fault is. */
interface Place {
  readonly id: string;
  readonly sls: string;
  readonly state: string;
}

const verifiedRequisites: ReadonlySet<string> = new Set([
  'require',
  'watch',
  'prereq',
  'onchanges',
]);

/** What is said of one state of an id. */
class Declaration {
  readonly #place: Place;
  readonly #circles: Circles;
  readonly #errors: string[] = [];

  constructor(place: Place, circles: Circles) {
    this.#place = place;
    this.#circles = circles;
  }

  verify(said: PlainData): readonly string[] {
    const { id, sls, state } = this.#place;
    if (state.startsWith('__')) return [];
    if (said === null) {
      this.#errors.push(
        `ID '${id}' in SLS '${sls}' contains a short declaration (${state}) with a trailing ` +
          'colon. When not passing any arguments to a state, the colon must be omitted.',
      );
    } else if (!isList(said)) {
      this.#errors.push(`State '${id}' in SLS '${sls}' is not formed as a list`);
    } else this.#verifyList(said);
    return this.#errors;
  }

  #verifyList(said: readonly PlainData[]): void {
    const { id, sls, state } = this.#place;
    for (const argument of said) {
      if (typeof argument === 'string') this.#verifyFunction(argument);
      else this.#verifyArgument(argument);
    }
    const [, inName] = state.split(/\.(.*)/s);
    const given = said.filter((argument) => typeof argument === 'string');
    const functions = inName === undefined ? given : [inName, ...given];
    if (functions.length === 0 && state !== 'require' && state !== 'watch') {
      this.#errors.push(`No function declared in state '${id}' in SLS '${sls}'`);
    }
    if (functions.length > 1) {
      this.#errors.push(
        `Too many functions declared in state '${id}' in SLS '${sls}'. ` +
          `Please choose one of the following: ${functions.join(', ')}`,
      );
    }
  }

  #verifyFunction(name: string): void {
    if (!name.trim().includes(' ')) return;
    const { id, sls } = this.#place;
    this.#errors.push(
      `The function "${name}" in state "${id}" in SLS "${sls}" has whitespace, a function with ` +
        'whitespace is not supported, perhaps this is an argument that is missing a ":"',
    );
  }

  #verifyArgument(argument: PlainData): void {
    const first = firstOf(argument);
    if (first === undefined) return;
    const [key, value] = first;
    const { id, sls } = this.#place;
    if (key === 'names' && !isList(value)) {
      this.#errors.push(
        `The 'names' argument in state '${id}' in SLS '${sls}' needs to be formed as a list`,
      );
    }
    if (!verifiedRequisites.has(key)) return;
    if (isList(value)) this.#verifyRequisites(value);
    else {
      this.#errors.push(
        `The ${key} statement in state '${id}' in SLS '${sls}' needs to be formed as a list`,
      );
    }
    if (isPillarMap(argument) && argument.size !== 1) {
      this.#errors.push(
        `Multiple dictionaries defined in argument of state '${id}' in SLS '${sls}'`,
      );
    }
  }

  #verifyRequisites(items: readonly PlainData[]): void {
    const { id, sls, state } = this.#place;
    this.#circles.begin(id, state);
    for (const item of items) {
      const [kind, name] = (typeof item === 'string' ? ['id', item] : firstOf(item)) ?? [];
      if (kind === undefined || name === undefined) {
        this.#errors.push(
          `Requisite declaration ${textOf(item)} in SLS ${sls} is not formed as a single key ` +
            'dictionary',
        );
        continue;
      }
      if (kind.includes('.')) {
        this.#errors.push(
          `Invalid requisite type '${kind}' in state '${id}', in SLS '${sls}'. Requisite types ` +
            `must not contain dots, did you mean '${kind.slice(0, kind.indexOf('.'))}'?`,
        );
      }
      if (isList(name)) {
        this.#errors.push(`Illegal requisite "${textOf(name)}", please check your syntax.\n`);
      } else if (this.#circles.closes(id, kind, textOf(name))) {
        this.#errors.push(
          `A recursive requisite was found, SLS "${sls}" ID "${id}" ID "${textOf(name)}"`,
        );
      }
    }
  }
}

/** Which ids depend on each other, one on the other and back; longer ways are found later. */
class Circles {
  readonly #states = new Map<string, string>();
  readonly #requisites = new Map<string, Map<string, string>>();

  /** What is noted of an id is that of its last list of requisites, as in Salt. */
  begin(id: string, state: string): void {
    this.#states.set(id, state);
    this.#requisites.set(id, new Map());
  }

  closes(id: string, kind: string, name: string): boolean {
    this.#requisites.get(id)?.set(name, kind);
    const back = this.#requisites.get(name)?.get(id);
    return back !== undefined && back === this.#states.get(id) && this.#states.get(name) === kind;
  }
}

// Keywords for the state runtime instead of the function [salt/state.py].

/** How a state may depend on others. */
export const requisiteKinds: ReadonlySet<string> = new Set([
  'onchanges',
  'onchanges_any',
  'onfail',
  'onfail_any',
  'onfail_all',
  'onfail_stop',
  'prereq',
  'prerequired',
  'watch',
  'watch_any',
  'require',
  'require_any',
  'listen',
]);

const others: readonly string[] = [
  'onchanges_in',
  'onfail_in',
  'prereq_in',
  'watch_in',
  'require_in',
  'listen_in',
  'fun',
  'state',
  'check_cmd',
  'cmd_opts_exclude',
  'failhard',
  'onlyif',
  'unless',
  'creates',
  'retry',
  'order',
  'name_order',
  'parallel',
  'reload_modules',
  'reload_grains',
  'reload_pillar',
  'runas',
  'runas_password',
  'fire_event',
  'saltenv',
  'umask',
  'use',
  'use_in',
];

/** Arguments that no function of a state gets. */
export const internalArguments: ReadonlySet<string> = new Set([...requisiteKinds, ...others]);

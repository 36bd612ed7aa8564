/** Applies `exclude` and `extend` of an SLS [salt/state.py apply_exclude, reconcile_extend]. */

import type { PlainData } from '#template';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { StateIndex } from './find-ids.ts';
import { type Body, type Extension, firstOf, type High, matchesGlob } from './high-data.ts';
import { requisiteKinds } from './state-keywords.ts';

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

/**
 * Applies `extend` to the high data.
 * @param isStrict - see {@link StateIndex.find}
 * @returns errors in Salt's words
 */
export function applyExtensions(
  high: High,
  extensions: readonly Extension[],
  isStrict: boolean,
): string[] {
  const errors: string[] = [];
  const excluded = new Set(high.exclude.map(excludedSls));
  const index = new StateIndex(high.bodies);
  for (const { id, body } of extensions) {
    const target = targetOf(high, index, { id, body }, isStrict);
    if (target === undefined) {
      errors.push(nothingToExtend(id, body));
      continue;
    }
    if (excluded.has(body.sls)) continue;
    const known = high.bodies.get(target);
    if (known !== undefined) index.replace(target, extended(known, body));
  }
  return errors;
}

function targetOf(
  { bodies }: High,
  index: StateIndex,
  { id, body }: Extension,
  isStrict: boolean,
): PlainData | undefined {
  const [state = ''] = body.states.keys();
  if (bodies.get(id)?.states.has(state)) return id;
  const [only, ...more] = index.find(id, state, isStrict);
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

/**
 * Adds `argument` to the arguments of a state and returns the result. An existing argument of the
 * same name is replaced. If both are requisites, their lists are joined instead.
 */
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
  // As in Salt, `name` replaces `names`, and is also appended.
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

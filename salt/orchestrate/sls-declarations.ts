/** Reads the ids and special keys of one SLS [salt/state.py _handle_state_decls]. */

import type { PlainData } from '#template';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { type Body, emptyHigh, type High, splitFunction } from './high-data.ts';

/** Name and environment of an SLS. */
export interface SlsPlace {
  readonly sls: string;
  readonly saltenv: string;
}

/** Content of one SLS. */
export interface ReadSls extends High {
  readonly include: readonly PlainData[];
}

/**
 * Reads the declarations of one SLS.
 * @param errors - receives errors in Salt's words
 */
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

/** Converts a declaration such as `test.nop: [args]` to `test: [args, nop]`. */
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

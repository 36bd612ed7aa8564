import { isWireMap, type WireMap, type WireValue } from '../payload.ts';

/** A map of values: `{key: …}` with text keys, or any keys. */
export type FactMap = WireMap | Map<WireValue, WireValue>;

/** Grains or pillar, looked up by their first key. */
export interface FactSource {
  /** The value under a key; text of a number also finds that number. `undefined`: none. */
  get(key: string): WireValue | undefined;
  /** All of it. */
  whole(): FactMap;
}

/** What is known of a minion; `undefined` is what nobody knows. */
export interface MinionFacts {
  readonly grains: FactSource | undefined;
  readonly pillar: FactSource | undefined;
}

/** What a minion manages besides itself: type → ids. */
export type MinionResources = ReadonlyMap<string, ReadonlySet<string>>;

/** Whether a value is a map. */
export function isFactMap(value: WireValue | undefined): value is FactMap {
  return value instanceof Map || isWireMap(value);
}

/** A plain map as a source. */
export function factsOf(map: FactMap): FactSource {
  return { get: (key) => lookUp(map, key), whole: () => map };
}

/** Whether a map has this text as a key. */
export function hasFactKey(map: FactMap, key: string): boolean {
  return map instanceof Map ? map.has(key) : Object.hasOwn(map, key);
}

/** The values of a map. */
export function factValues(map: FactMap): Iterable<WireValue> {
  return map instanceof Map ? map.values() : Object.values(map);
}

/**
 * The value at the end of a path through maps and lists
 * [salt/utils/data.py traverse_dict_and_list].
 */
export function traverseFacts(
  start: WireValue | undefined,
  path: readonly string[],
): WireValue | undefined {
  let value = start;
  for (const key of path) value = stepIntoFacts(value, key);
  return value;
}

/** The value under a key of a map, or in a list of maps. */
export function stepIntoFacts(value: WireValue | undefined, key: string): WireValue | undefined {
  if (Array.isArray(value)) return stepIntoList(value, key);
  return isFactMap(value) ? lookUp(value, key) : undefined;
}

/** A list is stepped into by the first map in it that has the key, or by number. */
function stepIntoList(list: readonly WireValue[], key: string): WireValue | undefined {
  const isIndex = /^\s*[+-]?\d+\s*$/.test(key);
  for (const item of list) {
    if (!isFactMap(item)) continue;
    const found = isIndex ? numberKey(item, key) : textKey(item, key);
    if (found !== undefined) return found;
  }
  return isIndex ? list.at(Number(key)) : undefined;
}

/** Salt reads a key that is not there as YAML, so that `1` finds the number. */
function lookUp(map: FactMap, key: string): WireValue | undefined {
  const value = textKey(map, key);
  return value === undefined ? numberKey(map, key) : value;
}

function textKey(map: FactMap, key: string): WireValue | undefined {
  if (map instanceof Map) return map.get(key);
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

function numberKey(map: FactMap, key: string): WireValue | undefined {
  if (!(map instanceof Map) || !/^[+-]?\d+(\.\d+)?$/.test(key.trim())) return undefined;
  return map.get(Number(key));
}

import { isWireMap, type WireMap, type WireValue } from '../wire-value.ts';

/** A map of values: an object with text keys, or a `Map` with any keys. */
export type FactMap = WireMap | Map<WireValue, WireValue>;

/** Grains or pillar of a minion, looked up by the first key of a path. */
export interface FactSource {
  /**
   * Returns the value of a key, or `undefined`. The text `1`, for example, also finds a key that is
   * the number 1.
   */
  get(key: string): WireValue | undefined;
  /** Returns all grains, or the whole pillar, as one map. */
  whole(): FactMap;
}

/**
 * Grains and pillar of a minion, with which targets are compared. Each is `undefined` if the master
 * has not stored it.
 */
export interface MinionFacts {
  readonly grains: FactSource | undefined;
  readonly pillar: FactSource | undefined;
}

/** Ids of the resources that a minion manages besides itself, by type of resource. */
export type MinionResources = ReadonlyMap<string, ReadonlySet<string>>;

/** Whether a value is a map. */
export function isFactMap(value: WireValue | undefined): value is FactMap {
  return value instanceof Map || isWireMap(value);
}

/** Returns a {@link FactSource} that reads from a map. */
export function factsOf(map: FactMap): FactSource {
  return { get: (key) => lookUp(map, key), whole: () => map };
}

/** Whether a map has a key that is this text. */
export function hasFactKey(map: FactMap, key: string): boolean {
  return map instanceof Map ? map.has(key) : Object.hasOwn(map, key);
}

/** Returns the values of a map. */
export function factValues(map: FactMap): Iterable<WireValue> {
  return map instanceof Map ? map.values() : Object.values(map);
}

/**
 * Returns the value at the end of a path through maps and lists, or `undefined` [salt/utils/data.py
 * traverse_dict_and_list].
 */
export function traverseFacts(
  start: WireValue | undefined,
  path: readonly string[],
): WireValue | undefined {
  let value = start;
  for (const key of path) value = stepIntoFacts(value, key);
  return value;
}

/** Returns the value of a key in a map or in a list of maps, or `undefined`. */
export function stepIntoFacts(value: WireValue | undefined, key: string): WireValue | undefined {
  if (Array.isArray(value)) return stepIntoList(value, key);
  return isFactMap(value) ? lookUp(value, key) : undefined;
}

/**
 * Searches a list for the first map with this key, and returns the value of the key. If the key is
 * a number, it can also be an index of the list.
 */
function stepIntoList(list: readonly WireValue[], key: string): WireValue | undefined {
  const isIndex = /^\s*[+-]?\d+\s*$/.test(key);
  for (const item of list) {
    if (!isFactMap(item)) continue;
    const found = isIndex ? numberKey(item, key) : textKey(item, key);
    if (found !== undefined) return found;
  }
  return isIndex ? list.at(Number(key)) : undefined;
}

/**
 * Returns the value of a key. As in Salt, a key that is not found as text is parsed as YAML, so
 * that `1` finds the number.
 */
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

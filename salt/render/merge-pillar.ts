/** Merges pillar [salt/utils/dictupdate.py]. */

import type { MergeStrategy } from '#config';
import type { FactMap, WireMap } from '#minion-protocol';
import { Float, type PlainData } from '#template';
import { isList, isPillarMap, type PillarMap } from './pillar-data.ts';
import { fromWire, toWirePillar } from './pillar-wire.ts';

/** Options of {@link mergePillar}. */
export interface MergeOptions {
  readonly strategy: MergeStrategy;
  /** `pillar_merge_lists`: whether lists are joined, without duplicates. */
  readonly mergeLists: boolean;
}

/** Merges `upper` over `lower` with the given strategy. */
export function mergePillar(
  lower: PillarMap,
  upper: PillarMap,
  { strategy, mergeLists }: MergeOptions,
): PillarMap {
  switch (strategy) {
    case 'list':
      return pairUp(lower, upper);
    // As in Salt, this strategy merges only the first level.
    case 'aggregate':
    case 'overwrite':
      return new Map([...lower, ...upper]);
    case 'none':
      return mergeDeep(lower, upper, false);
    case 'smart':
    case 'recurse':
      return mergeDeep(lower, upper, mergeLists);
  }
}

/**
 * Merges `upper` over `lower`, maps level by level.
 * @param mergeLists - whether lists are joined
 */
export function mergeDeep(lower: PillarMap, upper: PillarMap, mergeLists: boolean): PillarMap {
  const merged = new Map(lower);
  for (const [key, value] of upper) merged.set(key, mergeValue(merged.get(key), value, mergeLists));
  return merged;
}

/** Returns a copy that shares no list or map with the data. */
export function copyDeep(data: PlainData): PlainData {
  if (isPillarMap(data)) return copyMap(data);
  return isList(data) ? data.map(copyDeep) : data;
}

/** Returns a copy of a map that shares no list or map with it. */
export function copyMap(data: PillarMap): PillarMap {
  return new Map(Array.from(data, ([key, value]) => [key, copyDeep(value)]));
}

function mergeValue(
  lower: PlainData | undefined,
  upper: PlainData,
  mergeLists: boolean,
): PlainData {
  if (isPillarMap(lower) && isPillarMap(upper)) return mergeDeep(lower, upper, mergeLists);
  return mergeLists && Array.isArray(lower) && Array.isArray(upper)
    ? joinLists(lower, upper)
    : upper;
}

/** Returns the values of `lower`, followed by those values of `upper` that are not in `lower`. */
function joinLists(lower: readonly PlainData[], upper: readonly PlainData[]): PlainData[] {
  const marks = new Set(lower.map(markOf));
  return [...lower, ...upper.filter((value) => !marks.has(markOf(value)))];
}

/**
 * Returns a text for comparing values, so that each value is read once. Values that are equal in
 * Python have equal texts.
 */
function markOf(value: PlainData): string {
  if (value === null) return 'None';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (value instanceof Float) return String(value.value);
  if (value instanceof Uint8Array) return `b${Buffer.from(value).toString('base64')}`;
  if (isPillarMap(value)) {
    const entries = Array.from(value, ([key, item]) => `${markOf(key)}:${markOf(item)}`);
    return `{${entries.sort().join()}}`;
  }
  return isList(value) ? `[${value.map(markOf).join()}]` : '';
}

/**
 * Implements Salt's strategy `list`. If both maps have a key, its value becomes a list of both
 * values. Keys that only `upper` has are dropped.
 */
function pairUp(lower: PillarMap, upper: PillarMap): PillarMap {
  const paired = new Map<PlainData, PlainData>();
  for (const [key, value] of lower) {
    const other = upper.get(key);
    paired.set(key, other === undefined ? value : [value, other]);
  }
  return paired;
}

/**
 * Merges a pillar and the data of `pillar=` on a command line in two steps, as in Salt. First the
 * pillar is merged over the data, then the data is merged over the result.
 */
export function mergeOverride(pillar: FactMap, override: WireMap, options: MergeOptions): FactMap {
  if (Object.keys(override).length === 0) return pillar;
  const [lower, upper] = [fromWire(pillar), fromWire(override)];
  if (!isPillarMap(lower) || !isPillarMap(upper)) return pillar;
  return toWirePillar(mergePillar(mergePillar(upper, lower, options), upper, options));
}

/** Merges pillar [salt/utils/dictupdate.py]. */

import type { MergeStrategy } from '#config';
import type { FactMap, WireMap } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import type { PlainData } from '#template';
import { isList, isPillarMap, type PillarMap } from './pillar-data.ts';
import { fromWireInSteps, toWirePillarInSteps } from './pillar-wire.ts';
import {
  oneSlice,
  runAtOnce,
  runInSlices,
  type Slices,
  type Steps,
  stepsPerValue,
} from './slices.ts';
import { ValueNumbers } from './value-numbers.ts';

/** Options of {@link mergePillar}. */
export interface MergeOptions {
  readonly strategy: MergeStrategy;
  /** `pillar_merge_lists`: whether lists are joined, without duplicates. */
  readonly mergeLists: boolean;
}

/** Work for copying one entry of a map, in steps of a {@link WorkBudget}. */
const stepsPerCopy = 10;

/** Options of a merge that may run in slices. */
interface Merging extends MergeOptions {
  readonly slices: Slices;
  /** For comparing the values of lists. Several merges of the same values share it. */
  readonly numbers: ValueNumbers;
}

/** Merges `upper` over `lower` with the given strategy. */
export function mergePillar(lower: PillarMap, upper: PillarMap, options: MergeOptions): PillarMap {
  return runAtOnce(mergeInSteps(lower, upper, mergingIn(oneSlice, options)));
}

/**
 * Merges `upper` over `lower`, maps level by level.
 * @param mergeLists - whether lists are joined
 */
export function mergeDeep(lower: PillarMap, upper: PillarMap, mergeLists: boolean): PillarMap {
  return mergePillar(lower, upper, { strategy: 'recurse', mergeLists });
}

/**
 * Merges like {@link mergePillar}. Other work runs before the merge, and between its slices.
 * @param budget - work budget. Its owner takes turns with the owners of other work
 */
export async function mergeInSlices(
  lower: PillarMap,
  upper: PillarMap,
  options: MergeOptions,
  budget: WorkBudget,
): Promise<PillarMap> {
  await budget.giveWay();
  return runInSlices(mergeInSteps(lower, upper, mergingIn(budget, options)), budget);
}

function mergingIn(slices: Slices, { strategy, mergeLists }: MergeOptions): Merging {
  return { strategy, mergeLists, slices, numbers: new ValueNumbers(slices) };
}

function* mergeInSteps(lower: PillarMap, upper: PillarMap, merging: Merging): Steps<PillarMap> {
  switch (merging.strategy) {
    case 'list':
      return pairUp(lower, upper);
    // As in Salt, this strategy merges only the first level.
    case 'aggregate':
    case 'overwrite':
      return new Map([...lower, ...upper]);
    case 'none':
      return yield* deepInSteps(lower, upper, { ...merging, mergeLists: false });
    case 'smart':
    case 'recurse':
      return yield* deepInSteps(lower, upper, merging);
  }
}

function* deepInSteps(lower: PillarMap, upper: PillarMap, merging: Merging): Steps<PillarMap> {
  const { mergeLists, slices } = merging;
  const merged = new Map(lower);
  // The engine copies a map faster than a loop.
  slices.addToSlice(stepsPerCopy * merged.size);
  for (const [key, above] of upper) {
    slices.addToSlice(stepsPerValue);
    if (slices.isSliceOver) yield;
    const below = merged.get(key);
    if (isPillarMap(below) && isPillarMap(above)) {
      merged.set(key, yield* deepInSteps(below, above, merging));
    } else if (mergeLists && isList(below) && isList(above)) {
      merged.set(key, yield* joinInSteps(below, above, merging));
    } else merged.set(key, above);
  }
  return merged;
}

/** Returns the values of `lower`, followed by those values of `upper` that are not in `lower`. */
function* joinInSteps(
  lower: readonly PlainData[],
  upper: readonly PlainData[],
  { numbers }: Merging,
): Steps<PlainData[]> {
  const known = new Set(yield* numbers.of(lower));
  const added = yield* numbers.of(upper);
  return [...lower, ...upper.filter((_, place) => !known.has(added[place] ?? NaN))];
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
 * pillar is merged over the data, then the data is merged over the result. Other work runs before
 * the merge, and between its slices.
 * @param budget - work budget. Its owner takes turns with the owners of other work
 */
export async function mergeOverride(
  pillar: FactMap,
  override: WireMap,
  options: MergeOptions,
  budget: WorkBudget,
): Promise<FactMap> {
  if (Object.keys(override).length === 0) return pillar;
  await budget.giveWay();
  return runInSlices(overrideInSteps(pillar, override, options, budget), budget);
}

function* overrideInSteps(
  pillar: FactMap,
  override: WireMap,
  options: MergeOptions,
  slices: Slices,
): Steps<FactMap> {
  const lower = yield* fromWireInSteps(pillar, slices);
  const upper = yield* fromWireInSteps(override, slices);
  if (!isPillarMap(lower) || !isPillarMap(upper)) return pillar;
  const merging = mergingIn(slices, options);
  const merged = yield* mergeInSteps(upper, lower, merging);
  return yield* toWirePillarInSteps(yield* mergeInSteps(merged, upper, merging), slices);
}

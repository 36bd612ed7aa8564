import type { FactMap, WireMap } from '../../minion-protocol/index.ts';
import { isPillarMap, type MergeOptions, mergePillar } from './merge.ts';
import { fromWire, toWirePillar } from './wire.ts';

/** A pillar with that of a command line (`pillar=`) over it, and under it, as Salt has it. */
export function mergeOverride(pillar: FactMap, override: WireMap, options: MergeOptions): FactMap {
  if (Object.keys(override).length === 0) return pillar;
  const [lower, upper] = [fromWire(pillar), fromWire(override)];
  if (!isPillarMap(lower) || !isPillarMap(upper)) return pillar;
  return toWirePillar(mergePillar(mergePillar(upper, lower, options), upper, options));
}

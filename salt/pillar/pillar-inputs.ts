/**
 * Counts compiled pillars. For each grain that they depend on, counts the pillars and the different
 * values of the grain.
 */

import type { PillarInputs } from '#master';
import type { KeptPillar } from './pillar-records.ts';

interface Counted {
  pillars: number;
  readonly values: Set<string>;
  isShared: boolean;
}

/**
 * Returns the numbers of compiled pillars, and one row for each grain on which they depend.
 * @param shared - for each pillar that several minions share, the fingerprints of the grain values
 * that it depends on, by name of the grain
 * @param own - pillars that belong to one minion
 */
export function pillarInputs(
  shared: readonly ReadonlyMap<string, string>[],
  own: Iterable<Pick<KeptPillar, 'madeFrom'>>,
): PillarInputs {
  const grains = new Map<string, Counted>();
  const count = (name: string, mark: string, isShared: boolean): void => {
    const counted = grains.get(name) ?? { pillars: 0, values: new Set(), isShared: true };
    counted.pillars += 1;
    counted.values.add(mark);
    if (!isShared) counted.isShared = false;
    grains.set(name, counted);
  };
  for (const inputs of shared) for (const [name, mark] of inputs) count(name, mark, true);
  let ownCount = 0;
  for (const { madeFrom } of own) {
    ownCount += 1;
    const { values, whole } = madeFrom.grains;
    for (const [name, mark] of values) count(name, mark?.toString('base64') ?? '', false);
    if (whole !== undefined) count('*', whole.toString('base64'), false);
  }
  const rows = Array.from(grains, ([grain, { pillars, values, isShared }]) => {
    return { grain, values: values.size, pillars, isShared };
  });
  rows.sort((a, b) => b.values - a.values || (a.grain < b.grain ? -1 : 1));
  return { shared: shared.length, own: ownCount, grains: rows };
}

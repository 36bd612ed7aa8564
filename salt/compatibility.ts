/** What of Salt's functions this master serves. */

import { GrainReads, TracedGrains } from './render/grains.ts';
import { matchFunctions } from './render/match-functions.ts';
import { saltFunctions } from './render/template-functions.ts';

/** Names of the functions that templates of pillar or orchestrations may call, sorted. */
export function templateFunctionNames(): readonly string[] {
  const grains = new TracedGrains({}, new GrainReads());
  const setting = { pillar: new Map(), raisesOnMissing: false, opts: {} };
  const tables = [
    saltFunctions({ grains, setting }),
    matchFunctions({ id: '', grains, nodegroups: {} }),
  ];
  return tables.flatMap((table) => Object.keys(table)).sort();
}

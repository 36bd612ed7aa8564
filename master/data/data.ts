/** Opens pillar and mine. */

import type { PillarApi } from '../api/index.ts';
import { type Mine, type MineDeps, openMine } from './mine.ts';
import { createPillarApi, openPillarSource, type PillarOfProgram } from './pillar.ts';
import type { PillarSource } from './pillar-data.ts';

export interface DataDeps extends MineDeps {
  readonly sources: PillarOfProgram;
}

/** Data of minions. */
export interface MinionData extends Mine {
  readonly pillar: PillarSource;
  readonly api: PillarApi;
}

export async function createData({ sources, ...deps }: DataDeps): Promise<MinionData> {
  const mine = await openMine(deps);
  const pillar = await openPillarSource(deps, sources);
  const api = createPillarApi({ pillar, facts: deps.jobs.facts });
  return { ...mine, pillar, api };
}

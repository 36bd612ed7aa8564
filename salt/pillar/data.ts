/** Opens pillar and mine. */

import { gitPillarRemotesOf } from '#config';
import type { PillarApi } from '#master/api/index.ts';
import type { Files } from '../files/index.ts';
import { type Mine, type MineDeps, openMine } from '../mine/mine.ts';
import { type GitPillarUpdater, gitPillarUpdater } from './git-pillar.ts';
import { createPillarApi, openPillarSource, type PillarOfProgram } from './pillar.ts';
import type { PillarSource } from './pillar-data.ts';

export interface DataDeps extends MineDeps {
  readonly files: Pick<Files, 'mirrors'>;
  readonly sources: PillarOfProgram;
}

/** Data of minions. */
export interface MinionData extends Mine {
  readonly pillar: PillarSource;
  readonly api: PillarApi;
  readonly gitPillar: GitPillarUpdater;
}

export async function createData({
  sources,
  files: { mirrors },
  ...deps
}: DataDeps): Promise<MinionData> {
  const mine = await openMine(deps);
  const pillar = await openPillarSource({ ...deps, mirrors }, sources);
  const api = createPillarApi({ pillar, facts: deps.jobs.facts });
  const { fixed } = deps.config;
  const remotes = fixed.extPillar.flatMap((entry) =>
    entry.module === 'git' ? gitPillarRemotesOf(entry.remotes, fixed) : [],
  );
  // Every repository has been opened: of files and of pillar.
  await mirrors.start();
  return { ...mine, pillar, api, gitPillar: gitPillarUpdater(remotes, mirrors) };
}

/** Opens the mine [WIRE 9.6; salt/utils/mine.py]. */

import type { LiveConfig } from '#config';
import type { Auth, Jobs, MasterContext, Users } from '#master';
import { FairSlots } from '#runtime';
import { saltLimits } from '../limits.ts';
import { takeOverMines } from './import-mines.ts';
import { MineReader } from './mine-reader.ts';
import { MineStore } from './mine-store.ts';

export interface MineDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly jobs: Jobs;
  readonly users: Users;
}

/** The mines, and the reader that applies access rules to them. */
export interface Mine {
  readonly mine: MineStore;
  readonly mineReader: MineReader;
}

/** Opens the mines with the limits of the configuration. */
export async function openMine(deps: MineDeps): Promise<Mine> {
  const { config, context, auth, jobs, users } = deps;
  const { fixed } = config;
  const { store, now } = context;
  const { keys } = auth;
  const mine = new MineStore({
    store,
    isOn: fixed.minionDataCache || fixed.enforceMineCache,
    maxBytes: fixed.limits.mineBytes,
    maxValueBytes: fixed.limits.mineValueBytes,
    keepMarksMs: fixed.publishSession * 1000,
    now,
  });
  for await (const owner of mine.owners()) {
    if (!fixed.preserveMinionCache && keys.get(owner) === undefined) await mine.forget(owner);
  }
  if (fixed.minionDataCache) {
    const log = context.log.child({ component: 'mine' });
    const count = await takeOverMines(mine, store, {
      cachedir: fixed.cachedir,
      ids: keys.acceptedIds(),
      maxBytes: 2 * fixed.limits.mineBytes,
      log,
    });
    if (count > 0)
      log.info(
        { minions: count },
        'imported the mine data of minions from the cache of a salt-master',
      );
  }
  auth.onRetire((id) => mine.forget(id));
  auth.onKeyDeleted((id) => mine.forget(id));
  const mineReader = new MineReader({
    mine,
    targets: jobs.targets,
    gate: users.gate,
    slots: new FairSlots(saltLimits.mineQueries),
    trustsGrains: fixed.mineTrustsGrains,
    maxBytes: fixed.limits.mineReplyBytes,
  });
  return { mine, mineReader };
}

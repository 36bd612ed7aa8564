/** The runners that are served. A new one is a new entry of a table that is joined here. */

import type { EventBus } from '../events/bus.ts';
import { type AuthRunnerParts, authRunner } from './auth.ts';
import { type CacheRunnerParts, cacheRunner } from './cache.ts';
import { type DocRunnerParts, docRunner } from './doc.ts';
import { eventRunner } from './event.ts';
import { type FileserverRunnerParts, fileserverRunner } from './fileserver.ts';
import type { FunctionTable } from './function.ts';
import { type JobsRunnerParts, jobsRunner } from './jobs.ts';
import { type ManageRunnerParts, manageRunner } from './manage.ts';
import { type MineRunnerParts, mineRunner } from './mine.ts';
import { type PillarRunnerParts, pillarRunner } from './pillar.ts';
import { type SaltutilRunnerParts, saltutilRunner } from './saltutil.ts';
import { type StateRunnerParts, stateRunner } from './state.ts';
import { testRunner } from './test.ts';

/** What they need. */
export interface RunnerParts
  extends JobsRunnerParts,
    ManageRunnerParts,
    CacheRunnerParts,
    MineRunnerParts,
    PillarRunnerParts,
    FileserverRunnerParts,
    SaltutilRunnerParts,
    AuthRunnerParts,
    StateRunnerParts,
    DocRunnerParts {
  readonly bus: EventBus;
}

export function runnerTable(parts: RunnerParts): FunctionTable {
  return {
    ...jobsRunner(parts),
    ...manageRunner(parts),
    ...cacheRunner(parts),
    ...mineRunner(parts),
    ...pillarRunner(parts),
    ...eventRunner(parts),
    ...fileserverRunner(parts),
    ...saltutilRunner(parts),
    ...authRunner(parts),
    ...docRunner(parts),
    ...stateRunner(parts),
    ...testRunner(),
  };
}

import type { Logger } from 'pino';
import type { Store } from '../../store/index.ts';
import type { MasterConfig } from '../config/options.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { MineReader } from './mine-reader.ts';
import { MineStore } from './mine-store.ts';
import { takeOverMines } from './salt-mine-cache.ts';

/** What {@link openMine} needs. */
export interface MineParts {
  readonly config: MasterConfig;
  readonly store: Store;
  readonly targets: TargetResolver;
  readonly gate: PolicyGate;
  /** Whether an id has a key in any state; the mines of others are forgotten. */
  readonly hasKey: (id: string) => boolean;
  readonly acceptedIds: () => readonly string[];
  readonly now: () => number;
  readonly log: Logger;
}

/** The mines, and who may read in them. */
export interface Mine {
  readonly mine: MineStore;
  readonly mineReader: MineReader;
}

/** Opens the mines as they are configured. */
export async function openMine(parts: MineParts): Promise<Mine> {
  const { config, store, targets, now } = parts;
  const mine = new MineStore({
    store,
    isOn: config.minionDataCache || config.enforceMineCache,
    maxBytes: config.limits.mineBytes,
    maxValueBytes: config.limits.mineValueBytes,
    keepMarksMs: config.publishSession * 1000,
    now,
  });
  for await (const owner of mine.owners()) {
    if (!config.preserveMinionCache && !parts.hasKey(owner)) await mine.forget(owner);
  }
  if (config.minionDataCache) {
    const count = await takeOverMines(mine, store, {
      cachedir: config.cachedir,
      ids: parts.acceptedIds(),
      maxBytes: 2 * config.limits.mineBytes,
      log: parts.log,
    });
    if (count > 0) parts.log.info({ minions: count }, 'mines taken over from salt-master');
  }
  const mineReader = new MineReader({
    mine,
    targets,
    gate: parts.gate,
    trustsGrains: config.mineTrustsGrains,
    maxBytes: config.limits.mineReplyBytes,
  });
  return { mine, mineReader };
}

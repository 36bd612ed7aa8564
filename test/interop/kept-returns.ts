import path from 'node:path';
import { JobCache } from '#master/jobs/job-cache.ts';
import { openEmbeddedStore } from '#store';
import type { MasterHome } from './our-master.ts';

/** Returns the minions whose returns are in the store of a closed master, by jid. */
export async function keptReturns(
  home: MasterHome,
  jids: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const directory = path.join(home.directory, 'state', 'store');
  const store = await openEmbeddedStore({ directory, now: Date.now });
  try {
    const cache = new JobCache({
      store,
      isOn: true,
      keepMarksMs: 1,
      keepMs: 86_400_000,
      now: Date.now,
    });
    const kept = new Map<string, readonly string[]>();
    for (const jid of jids) {
      const minions: string[] = [];
      for await (const { minion } of cache.returns(jid)) minions.push(minion);
      kept.set(jid, minions.sort());
    }
    return kept;
  } finally {
    await store.close();
  }
}

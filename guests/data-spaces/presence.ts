/** Caches which minions are connected, for frequent lookups. */

import { type MasterApi, MasterError, type PresentMinion } from '#master';

/** Function that returns the connected minions, by id. */
export type Presence = () => Promise<ReadonlyMap<string, PresentMinion>>;

/** Time for which the connected minions are cached, in milliseconds. */
const presenceMs = 1_000;

interface PresenceHost {
  readonly master: () => Pick<MasterApi, 'presence'>;
}

/** Creates a function that returns the connected minions. The result is cached for one second. */
export function createPresence({ master }: PresenceHost): Presence {
  let known: ReturnType<Presence> | undefined;
  let at = -Infinity;
  return () => {
    if (known !== undefined && performance.now() - at < presenceMs) return known;
    at = performance.now();
    known = readPresence(master);
    return known;
  };
}

async function readPresence(master: PresenceHost['master']): ReturnType<Presence> {
  try {
    const list = await master().presence();
    return new Map(list.map((it) => [it.id, it]));
  } catch (error) {
    // Minions may request pillar data before the start of the master has ended.
    if (error instanceof MasterError && error.code === 'ERR_MASTER_STOPPED') return new Map();
    throw error;
  }
}

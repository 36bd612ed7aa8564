/** Which minions are connected, for whoever asks often. */

import { type MasterApi, MasterError, type PresentMinion } from '#master';

/** Minions that are connected, by id. */
export type Presence = () => Promise<ReadonlyMap<string, PresentMinion>>;

/** Milliseconds that a look at all minions is good for: many may ask at once. */
const presenceMs = 1_000;

interface PresenceHost {
  readonly master: () => Pick<MasterApi, 'presence'>;
}

/** A look at all minions, which is shared for a second. */
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
    // Minions may ask for their pillar before the start is over.
    if (error instanceof MasterError && error.code === 'ERR_MASTER_STOPPED') return new Map();
    throw error;
  }
}

import type { MasterConfig } from '../config/options.ts';
import type { PresentMinion } from '../presence/present.ts';
import type { LastHeard } from './last-heard.ts';

/** What tells who is connected. */
export interface FullnessOptions {
  readonly rules: Pick<MasterConfig, 'maxMinions'>;
  readonly lastHeard: Pick<LastHeard, 'size'>;
  readonly present: () => readonly PresentMinion[];
  readonly now: () => number;
}

/** Milliseconds that a count holds: a fleet that signs in again is not counted for each of it. */
const countHoldsMs = 1000;

/**
 * Whether `max_minions` keeps an id out: more than so many are connected, and it is none of them
 * [WIRE 6.2].
 */
export function createFullnessCheck(options: FullnessOptions): (id: string) => boolean {
  const { rules, lastHeard, present, now } = options;
  let connected: ReadonlySet<string> = new Set();
  let countedAt = Number.NEGATIVE_INFINITY;
  return (id) => {
    const { maxMinions } = rules;
    // Nobody is connected who was not heard, so that most of the time nobody is counted.
    if (maxMinions === 0 || lastHeard.size <= maxMinions) return false;
    if (Math.abs(now() - countedAt) >= countHoldsMs) {
      connected = idsOf(present().filter(countsAsConnected));
      countedAt = now();
    }
    return connected.size > maxMinions && !connected.has(id);
  };
}

/** Anybody may ask for a topic: one that only that speaks for takes no other minion's room. */
function countsAsConnected({ by, isSure }: PresentMinion): boolean {
  return isSure || by !== 'topic';
}

function idsOf(minions: readonly PresentMinion[]): ReadonlySet<string> {
  return new Set(minions.map(({ id }) => id));
}

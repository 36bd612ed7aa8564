import type { MasterConfig } from '../config/options.ts';
import type { LastHeard } from './last-heard.ts';

/** What tells who is connected. */
export interface FullnessOptions {
  readonly rules: Pick<MasterConfig, 'maxMinions'>;
  readonly lastHeard: LastHeard;
  /** Addresses that have a publish connection now. */
  readonly subscribedFrom: () => ReadonlySet<string>;
}

/**
 * Whether `max_minions` keeps an id out: more than so many are connected, and it is none of them
 * [WIRE 6.2].
 */
export function createFullnessCheck(options: FullnessOptions): (id: string) => boolean {
  const { rules, lastHeard, subscribedFrom } = options;
  return (id) => {
    const { maxMinions } = rules;
    // Nobody is connected who was not heard, so that most of the time nobody is counted.
    if (maxMinions === 0 || lastHeard.size <= maxMinions) return false;
    const connected = lastHeard.from(subscribedFrom());
    return connected.size > maxMinions && !connected.has(id);
  };
}

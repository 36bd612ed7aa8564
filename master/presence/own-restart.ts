import type { MinionFacts } from '../../minion-protocol/index.ts';
import type { PresentMinion } from './present.ts';

/** The first release whose minions do not connect again over TCP [WIRE 4.2, 23.6]. */
const firstRelease = 3007;

/**
 * The minions of these that do not connect again by themselves after a restart of the master, so
 * that they need one of their own: all over WebSocket, and those of 3007 and later over TCP.
 */
export function needingOwnRestart(
  present: readonly PresentMinion[],
  factsOf: (id: string) => Pick<MinionFacts, 'grains'>,
): string[] {
  return present
    .filter(({ id, transport }) => {
      if (transport !== 'tcp') return transport === 'ws';
      const release = Number.parseFloat(String(factsOf(id).grains?.get('saltversion') ?? ''));
      return release >= firstRelease;
    })
    .map(({ id }) => id);
}

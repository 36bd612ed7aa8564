/** Signals of minions of sites at the centre: they enter the outbox of the bridge once. */

import { bridgeServices } from '#heat-bridge';
import { isWireMap } from '#minion-protocol';
import { EdgeError } from '../errors.ts';
import type { MinionClaims } from '../facts/minion-claims.ts';
import type { CentreContext } from '../parts.ts';

/**
 * Registers the handler of signals. A signal is stored in the outbox before the position of its
 * site is. If the centre stops in between, the site sends the signal again, and the outbox
 * recognises it by its id.
 */
export function handleSignals({ host, ingest }: CentreContext, claims: MinionClaims): void {
  ingest.on('signal', {
    operations: async ({ site, value }) => {
      const { id, tag, minion, data, body, jid } = value;
      if (typeof id !== 'string' || typeof tag !== 'string' || typeof minion !== 'string') {
        throw new EdgeError('ERR_SITE_MESSAGE', 'the fields of the signal are malformed');
      }
      const signals = host.find(bridgeServices.signals);
      if (signals === undefined) {
        throw new EdgeError('ERR_SITE_MESSAGE', 'the centre has no bridge that accepts signals');
      }
      const operations = await claims.claim(site, minion);
      const result = await signals.intake.acceptEvent({
        tag,
        sender: minion,
        data,
        ...(isWireMap(body) ? { body } : {}),
        ...(typeof jid === 'string' ? { jid } : {}),
        request: { mark: `${site} ${id}`, place: 0 },
      });
      if (result.kind === 'accepted') return operations;
      // A full quota refuses the signal as well, so that one minion does not delay all others.
      throw new EdgeError('ERR_SITE_MESSAGE', `signal refused: ${result.reason}`);
    },
  });
}

/**
 * Adds signals of sites' minions to the outbox of the centre's bridge. Each signal is added once.
 */

import { bridgeServices } from '#heat-bridge';
import { isWireMap } from '#minion-protocol';
import { EdgeError } from '../errors.ts';
import type { CentreContext } from '../parts.ts';

/**
 * Registers the handler of signals in the logs of sites. The centre first adds a signal to the
 * outbox. In a second write, it stores the position up to which it has applied the site's log. If
 * the centre stops between the two writes, the site sends the signal again. The outbox then ignores
 * the signal, because it already contains the signal's id.
 */
export function handleSignals({ host, ingest, claims }: CentreContext): void {
  ingest.on('signal', {
    operations: async ({ site, value }) => {
      const { id, tag, minion, data, body, jid } = value;
      if (typeof id !== 'string' || typeof tag !== 'string' || typeof minion !== 'string') {
        throw new EdgeError('ERR_SITE_MESSAGE', 'the fields of the signal are malformed');
      }
      const signals = host.find(bridgeServices.signals);
      if (signals === undefined) {
        throw new EdgeError(
          'ERR_SITE_MESSAGE',
          'the centre cannot accept signals: its bridge is not enabled',
        );
      }
      claims.require(site, minion);
      const result = await signals.intake.acceptEvent({
        tag,
        sender: minion,
        data,
        ...(isWireMap(body) ? { body } : {}),
        ...(typeof jid === 'string' ? { jid } : {}),
        request: { mark: `${site} ${id}`, place: 0 },
      });
      if (result.kind === 'accepted') return claims.claim(site, minion);
      // Refuse the signal if the minion's quota is full. If the site had to retry it, one minion
      // would delay all other minions.
      throw new EdgeError('ERR_SITE_MESSAGE', `signal refused: ${result.reason}`);
    },
  });
}

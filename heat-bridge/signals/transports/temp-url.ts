/** TEMP_URL_SIGNAL: an object in Swift, which Heat looks at once a second. */
import { hash } from 'node:crypto';
import { type Outcome, outcomeOf } from '../outcome.ts';
import { type Delivery, type DestinationOf, heatBody } from './delivery.ts';

/** What Heat writes when it has taken a signal. */
const takenEtag = hash('md5', 'in progress');

/**
 * Each `PUT` replaces what lies there, and one that comes while Heat reads is lost. So the next
 * signal waits until Heat has taken the last one; `HEAD` tells by the digest of the object. Where our
 * own lies there already, only its answer was lost.
 */
export async function deliverTempUrlSignal(
  delivery: Delivery<DestinationOf<'TEMP_URL_SIGNAL'>>,
): Promise<Outcome> {
  const { url } = delivery.destination;
  const body = heatBody(delivery);
  const look = await delivery.ask({ method: 'HEAD', url });
  if (look.kind === 'answer' && look.status === 200) {
    const etag = look.headers.etag?.replaceAll('"', '');
    if (etag === hash('md5', body)) return { kind: 'delivered' };
    if (etag !== takenEtag) {
      const reason = 'Heat has not taken the signal before this one';
      return { kind: 'again', reason, isTurn: true };
    }
  }
  // Where looking is refused, the answer to PUT has words for it; that to HEAD has none.
  if (look.kind !== 'answer' || look.status >= 500) return outcomeOf(look, []);
  return outcomeOf(await delivery.ask({ method: 'PUT', url, body }), [201]);
}

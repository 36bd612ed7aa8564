/** The topics of `zmq_filtering` [WIRE 4.1]. */
import { createHash } from 'node:crypto';

/** What every filtering minion and syndic subscribes to. */
export const BROADCAST_TOPIC = 'broadcast';
/** What a filtering syndic subscribes to besides. */
export const SYNDIC_TOPIC = 'syndic';

/** A minion's own topic: the lower-case hex SHA-1 of its id in UTF-8. */
export function minionTopic(minionId: string): string {
  return createHash('sha1').update(minionId, 'utf8').digest('hex');
}

/** WEBHOOK: a signed message in the form of Standard Webhooks 1.0. */
import { createHmac } from 'node:crypto';
import { writeJson } from '../../../runtime/index.ts';
import { type Outcome, outcomeOf } from '../outcome.ts';
import type { Delivery, DestinationOf } from './delivery.ts';

const done = [200, 201, 202, 204];

/**
 * The id stays the same at each try, so that a receiver can tell a message that comes again; it is
 * signed with every key of the endpoint, so that either may be retired first.
 */
export async function deliverWebhook(
  delivery: Delivery<DestinationOf<'WEBHOOK'>>,
): Promise<Outcome> {
  const { destination, recordId, alias, minion, member, signal, signalId, now } = delivery;
  const seconds = Math.floor(now() / 1000);
  const body = writeJson({
    type: 'signal',
    timestamp: new Date(seconds * 1000).toISOString(),
    data: {
      handle: alias,
      id: signalId,
      minion,
      ...(member === undefined ? {} : { member }),
      ...signal,
    },
  });
  const exchange = await delivery.ask({
    method: 'POST',
    url: destination.url,
    headers: {
      'webhook-id': recordId,
      'webhook-timestamp': String(seconds),
      'webhook-signature': destination.keys
        .map((key) => sign(key, `${recordId}.${seconds}.${body}`))
        .join(' '),
    },
    body,
  });
  return outcomeOf(exchange, done);
}

function sign(key: string, text: string): string {
  const secret = Buffer.from(key.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', secret).update(text).digest('base64')}`;
}

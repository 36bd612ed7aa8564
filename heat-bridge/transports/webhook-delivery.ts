/** Delivers signals to webhooks, as signed messages in the form of Standard Webhooks 1.0. */

import { createHmac } from 'node:crypto';
import { writeJson } from '#runtime';
import { type DeliveryOutcome, deliveryOutcomeOf } from '../openstack/service-answer.ts';
import type { Delivery } from './transport.ts';

/** Webhook: its URL, and the keys that sign messages to it. */
export interface WebhookReceiver {
  readonly url: string;
  /** One key, or two keys while a key is being replaced: `whsec_` and base64. */
  readonly keys: readonly string[];
}

const webhookSuccess = [200, 201, 202, 204];

/**
 * Sends a signal. The message has the same id at each attempt, so that the receiver recognises
 * repetitions. The message is signed with every key. While a key is being replaced, the receiver
 * can therefore verify with the old or the new key.
 */
export async function postWebhook({
  destination,
  record,
  signalId,
  now,
  ask,
}: Delivery<WebhookReceiver>): Promise<DeliveryOutcome> {
  const { id, alias, minion, member, signal } = record;
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
  const exchange = await ask({
    method: 'POST',
    url: destination.url,
    headers: {
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': destination.keys
        .map((key) => signWebhook(key, `${id}.${seconds}.${body}`))
        .join(' '),
    },
    body,
  });
  return deliveryOutcomeOf(exchange, webhookSuccess);
}

function signWebhook(key: string, text: string): string {
  const secret = Buffer.from(key.slice('whsec_'.length), 'base64');
  return `v1,${createHmac('sha256', secret).update(text).digest('base64')}`;
}

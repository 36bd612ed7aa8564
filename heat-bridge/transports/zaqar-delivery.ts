/** Delivers signals and results to a Zaqar queue, which Heat reads once a second. */

import Type from 'typebox';
import { compileSchema, writeJson } from '#runtime';
import { isPlainMap } from '../commands/command-definition.ts';
import { type Credentials, logInToKeystone } from '../openstack/log-in.ts';
import { type DeliveryOutcome, deliveryOutcomeOf } from '../openstack/service-answer.ts';
import { publicServiceUrl } from '../openstack/service-catalog.ts';
import { jsonOf } from './heat-requests.ts';
import type { Delivery, ResultDelivery } from './transport.ts';

/**
 * Queue of Zaqar, with the credentials of its user. The service catalog of the login contains the
 * URL of Zaqar.
 */
export interface ZaqarQueue extends Credentials {
  readonly queueId: string;
  readonly regionName?: string;
}

/** Minimum and maximum lifetime of a message in Zaqar, in seconds. */
const [leastTtl, mostTtl] = [60, 1_209_600];

/** Client id that the bridge sends to Zaqar. It can be any constant UUID. */
export const zaqarClientId = '6f0e2f0c-7a5e-4f0e-9c4e-5a17b41d6e00';

/**
 * Posts a signal. Logs in for every signal, because Zaqar accepts messages for some time after
 * their stack was deleted. Only a rejected login shows that the stack no longer exists.
 */
export async function postSignalMessage({
  destination,
  record,
  signalId,
  expiresAt,
  now,
  ask,
}: Delivery<ZaqarQueue>): Promise<DeliveryOutcome> {
  const login = await logInToKeystone(ask, destination);
  if (!login.isIn) return login.outcome;
  const service = await publicServiceUrl(login.body, 'messaging', destination.regionName);
  if (service === undefined) {
    return {
      kind: 'final',
      reason: "Keystone's service catalog contains no public messaging endpoint in the region",
    };
  }
  const ttl = Math.ceil((expiresAt - now()) / 1000);
  const exchange = await ask({
    method: 'POST',
    url: messagesUrl(service, destination),
    headers: headersOf(login.token),
    body: writeJson({
      messages: [
        {
          body: { ...record.signal, id: signalId },
          ttl: Math.min(mostTtl, Math.max(leastTtl, ttl)),
        },
      ],
    }),
  });
  return deliveryOutcomeOf(exchange, [201]);
}

/**
 * Lifetime of a result in the queue, in seconds. It is short, so that an unread result does not
 * complete a later update of the stack.
 */
const messageTtlSeconds = 60;
const maxListBytes = 1_048_576;

/**
 * Posts the result of a deployment. When Heat waits for a deployment, it takes the first message in
 * the queue, even if this message is about another deployment. Therefore messages about other
 * deployments are deleted first. A result that is already in the queue is not posted again.
 */
export async function postResultMessage({
  destination,
  id,
  body,
  ask,
}: ResultDelivery<ZaqarQueue>): Promise<DeliveryOutcome> {
  const login = await logInToKeystone(ask, destination);
  if (!login.isIn) return login.outcome;
  const zaqar = await publicServiceUrl(login.body, 'messaging', destination.regionName);
  if (zaqar === undefined) {
    return { kind: 'final', reason: "Keystone's service catalog contains no Zaqar endpoint" };
  }
  const url = messagesUrl(zaqar, destination);
  const headers = headersOf(login.token);
  const look = await ask({
    method: 'GET',
    url: `${url}?echo=true`,
    headers,
    maxAnswerBytes: maxListBytes,
  });
  const read = jsonOf(look, { maxBytes: maxListBytes });
  const messages = messagesOf(read.ok ? read.body : undefined);
  if (messages.some((it) => isPlainMap(it.body) && it.body.saltbridge_deployment === id)) {
    return { kind: 'delivered' };
  }
  if (messages.length > 0) {
    const ids = messages.map((it) => encodeURIComponent(it.id)).join(',');
    await ask({ method: 'DELETE', url: `${url}?ids=${ids}`, headers });
  }
  const message = `{"messages":[{"body":${body},"ttl":${messageTtlSeconds}}]}`;
  return deliveryOutcomeOf(await ask({ method: 'POST', url, headers, body: message }), [201]);
}

function messagesUrl(service: string, { queueId }: ZaqarQueue): string {
  return `${service}/v2/queues/${encodeURIComponent(queueId)}/messages`;
}

function headersOf(token: string): Readonly<Record<string, string>> {
  return { 'x-auth-token': token, 'client-id': zaqarClientId };
}

const isMessages = compileSchema(
  Type.Object({
    messages: Type.Array(Type.Object({ id: Type.String(), body: Type.Unknown() })),
  }),
);

/** Returns the messages on a page of a queue. */
export function messagesOf(
  body: unknown,
): readonly { readonly id: string; readonly body: unknown }[] {
  return isMessages.Check(body) ? body.messages : [];
}

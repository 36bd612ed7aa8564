/**
 * Delivers signals to pre-signed URLs: with `PUT` to heat-api-cfn, or as objects in Swift, which
 * Heat reads once a second.
 */

import { hash } from 'node:crypto';
import { type HttpResult, writeJson } from '#runtime';
import {
  type DeliveryOutcome,
  deliveryOutcomeOf,
  errorTextOf,
} from '../openstack/service-answer.ts';
import { heatBody, storableReason } from './heat-requests.ts';
import type { Ask, Delivery, ResultDelivery } from './transport.ts';

type PreSigned = { readonly url: string };

/**
 * Number of failed attempts after which a response with the status 500 is final. heat-api-cfn
 * responds with 500 to some signals for up to a minute before it accepts them. It also responds
 * with 500 to signals that it will never accept.
 */
const maxServerErrors = 4;

/** Sends a signal with `PUT` to a pre-signed URL of heat-api-cfn. */
export async function putToCfn(
  { destination: { url }, failures, ask }: Delivery<PreSigned>,
  body: string,
): Promise<DeliveryOutcome> {
  const exchange = await ask({ method: 'PUT', url, body });
  if (exchange.kind === 'answer' && exchange.status === 500 && failures + 1 >= maxServerErrors) {
    return { kind: 'final', reason: errorTextOf(exchange) };
  }
  return deliveryOutcomeOf(exchange, [200]);
}

/**
 * Serializes a signal in the form of AWS. All four fields are required strings [heat
 * AWS::CloudFormation::WaitConditionHandle].
 */
export function awsBody({ record, signalId }: Delivery<unknown>): string {
  const { status, reason = 'signal received', data = '' } = record.signal;
  return JSON.stringify({
    Status: status,
    Reason: storableReason(reason),
    Data: typeof data === 'string' ? data : writeJson(data),
    UniqueId: signalId,
  });
}

/**
 * Sends `POST` to the URL of a scaling policy. Heat scales on every signal to it, so a FAILURE is
 * not sent.
 */
export async function postAlarm(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, record, ask } = delivery;
  if (record.signal.status === 'FAILURE') {
    return {
      kind: 'final',
      reason: 'not sent: a scaling policy scales on every signal, so a FAILURE would scale too',
    };
  }
  const { url } = destination;
  return deliveryOutcomeOf(await ask({ method: 'POST', url, body: heatBody(delivery) }), [200]);
}

/**
 * Maximum time for which an object with a signal may stay unread, in milliseconds. After this time,
 * the bridge assumes that Heat does not read it. Heat reads once a second, but a busy Heat may take
 * much longer.
 */
const untakenMs = 30_000;

/**
 * MD5 of the text `in progress`. Heat writes this text into an object after it has read the signal
 * in it. The next signal can then replace the text.
 */
const readSignalEtag = hash('md5', 'in progress');

/**
 * Writes a signal as an object that Heat reads. Each `PUT` replaces the object, and Heat could miss
 * a signal that is replaced. The next signal therefore waits until the etag of the object shows
 * that Heat has read the previous signal. If Heat does not read the object for {@link untakenMs},
 * the object belongs to a `SwiftSignal`, or to a condition that has not started. In these cases,
 * the next signal may replace the object, because Swift stores every version of it.
 */
export async function putSignalObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, (etag, ageMs) => {
    if (etag === readSignalEtag || ageMs >= untakenMs) return undefined;
    const reason = 'waiting until Heat has read the previous signal';
    return { kind: 'again', reason, isTurn: true };
  });
}

/**
 * Writes a signal for a `SwiftSignal`. Swift stores every version of the object, and Heat removes
 * none of them.
 */
export function putVersionedObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, () => undefined);
}

/**
 * Writes the result of a deployment to the object at the URL of the destination. If the object
 * exists, it is replaced, whatever it contains.
 */
export function putResultObject({
  destination,
  body,
  ask,
}: ResultDelivery<PreSigned>): Promise<DeliveryOutcome> {
  return putObject(destination.url, body, ask, () => undefined);
}

/**
 * Writes an object. If the object already has this content, an earlier attempt succeeded without a
 * response, and nothing is written.
 * @param refusal - called if the object has other content, with its etag and its age in
 * milliseconds. Returns `undefined` if the object may be replaced. Otherwise returns the outcome of
 * the delivery, and nothing is written
 */
async function putObject(
  url: string,
  body: string,
  ask: Ask,
  refusal: (etag: string | undefined, ageMs: number) => DeliveryOutcome | undefined,
): Promise<DeliveryOutcome> {
  const look = await ask({ method: 'HEAD', url });
  if (look.kind === 'answer' && look.status === 200) {
    const etag = etagOf(look);
    if (etag === hash('md5', body)) return { kind: 'delivered' };
    const refused = refusal(etag, ageOf(look));
    if (refused !== undefined) return refused;
  }
  // If `HEAD` is rejected, send `PUT` nevertheless, because only the response to `PUT` contains the
  // reason.
  if (look.kind !== 'answer' || look.status >= 500) return deliveryOutcomeOf(look, []);
  return deliveryOutcomeOf(await ask({ method: 'PUT', url, body }), [201]);
}

/**
 * Returns the age of an object according to Swift's clock, in milliseconds. Returns 0 if the
 * response does not contain it.
 */
function ageOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): number {
  const ageMs = Date.parse(headers.date ?? '') - Date.parse(headers['last-modified'] ?? '');
  return Number.isFinite(ageMs) ? ageMs : 0;
}

function etagOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): string | undefined {
  return headers.etag?.replaceAll('"', '');
}

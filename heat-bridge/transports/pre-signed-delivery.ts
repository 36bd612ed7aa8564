/**
 * Delivers to pre-signed URLs: `PUT` to heat-api-cfn, and objects in Swift, which Heat polls once
 * a second.
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
 * Number of HTTP 500 responses after which a signal is not retried. heat-api-cfn returns 500 also
 * for signals that it will never accept, and takes up to a minute for some.
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
 * Serializes a signal in AWS's form. All four fields are required strings [heat
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
 * Sends `POST` to the URL of a scaling policy. Heat treats any signal as an alarm, so a failure
 * must not be sent.
 */
export async function postAlarm(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, record, ask } = delivery;
  if (record.signal.status === 'FAILURE') {
    return {
      kind: 'final',
      reason: 'a FAILURE is not sent to a scaling policy, because any signal scales',
    };
  }
  const { url } = destination;
  return deliveryOutcomeOf(await ask({ method: 'POST', url, body: heatBody(delivery) }), [200]);
}

/**
 * Age after which an object is known not to be consumed by Heat, which reads once a second. In
 * milliseconds.
 */
const untakenMs = 5_000;

/** MD5 of the content that Heat writes after it has read a signal. */
const unreadSignalEtag = hash('md5', 'in progress');

/**
 * Writes a signal as an object that Heat consumes. Each `PUT` replaces the object, and a write
 * during Heat's read is lost. The next signal therefore waits until Heat has read the previous
 * one, which the etag in the response to `HEAD` shows. An object that stays longer belongs to a
 * `SwiftSignal`, or to a condition that has not started. Heat does not consume it, and Swift
 * stores every version.
 */
export async function putSignalObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, (etag, ageMs) => {
    if (etag === unreadSignalEtag || ageMs >= untakenMs) return undefined;
    const reason = 'Heat has not read the previous signal yet';
    return { kind: 'again', reason, isTurn: true };
  });
}

/**
 * Writes a signal that a `SwiftSignal` reads. Swift stores every version, and Heat removes none.
 */
export function putVersionedObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, () => undefined);
}

/** Writes the result of a deployment, and replaces any content of the object. */
export function putResultObject({
  destination,
  body,
  ask,
}: ResultDelivery<PreSigned>): Promise<DeliveryOutcome> {
  return putObject(destination.url, body, ask, () => undefined);
}

/**
 * Writes an object, unless it already has this content because only the response of an earlier
 * write was lost.
 * @param refusal - returns an outcome if an object with this etag and age must not be replaced yet
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
  // If HEAD is rejected, only the response to PUT has the reason.
  if (look.kind !== 'answer' || look.status >= 500) return deliveryOutcomeOf(look, []);
  return deliveryOutcomeOf(await ask({ method: 'PUT', url, body }), [201]);
}

/**
 * Returns the time since the object was written, by Swift's clock, in milliseconds. Returns 0 if
 * the response does not contain it.
 */
function ageOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): number {
  const ageMs = Date.parse(headers.date ?? '') - Date.parse(headers['last-modified'] ?? '');
  return Number.isFinite(ageMs) ? ageMs : 0;
}

function etagOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): string | undefined {
  return headers.etag?.replaceAll('"', '');
}

/** Pre-signed addresses: `PUT` to heat-api-cfn, and objects in Swift, which Heat polls once a second. */

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
 * heat-api-cfn also answers 500 to a signal that it will never take, and takes a minute for some; a
 * signal that it refuses so often is given up.
 */
const maxServerErrors = 4;

/** `PUT` to a pre-signed address of heat-api-cfn. */
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

/** All four fields are required, and all are text [heat AWS::CloudFormation::WaitConditionHandle]. */
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
 * `POST` to the address of a scaling policy. Heat takes any signal for an alarm, so a failure must not
 * reach it.
 */
export async function postAlarm(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, record, ask } = delivery;
  if (record.signal.status === 'FAILURE') {
    return { kind: 'final', reason: 'a scaling policy takes no FAILURE: it would scale' };
  }
  const { url } = destination;
  return deliveryOutcomeOf(await ask({ method: 'POST', url, body: heatBody(delivery) }), [200]);
}

/** Milliseconds after which Heat, which reads once a second, is known not to take signals away. */
const untakenMs = 5_000;

/** MD5 of what Heat writes once it has taken a signal. */
const unreadSignalEtag = hash('md5', 'in progress');

/**
 * Each `PUT` replaces the object, and one that comes while Heat reads is lost. The next signal
 * therefore waits until Heat has taken the last one, which the digest in the answer to `HEAD` shows. An
 * object that stays for longer is that of a `SwiftSignal`, or of a condition that has not begun: Heat
 * takes nothing away, and Swift keeps every version.
 */
export async function putSignalObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, (etag, ageMs) => {
    if (etag === unreadSignalEtag || ageMs >= untakenMs) return undefined;
    const reason = 'Heat has not taken the signal before this one';
    return { kind: 'again', reason, isTurn: true };
  });
}

/** Writes a signal that a `SwiftSignal` reads: Swift keeps every version, and Heat takes none away. */
export function putVersionedObject(delivery: Delivery<PreSigned>): Promise<DeliveryOutcome> {
  const { destination, ask } = delivery;
  return putObject(destination.url, heatBody(delivery), ask, () => undefined);
}

/** Writes the result of a deployment; whatever the object holds is replaced. */
export function putResultObject({
  destination,
  body,
  ask,
}: ResultDelivery<PreSigned>): Promise<DeliveryOutcome> {
  return putObject(destination.url, body, ask, () => undefined);
}

/**
 * Writes an object, unless it has this content already: then only the answer was lost.
 * @param refusal - whether an object with this etag and age must not be replaced now
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
  // If HEAD is refused, only the answer to PUT says why.
  if (look.kind !== 'answer' || look.status >= 500) return deliveryOutcomeOf(look, []);
  return deliveryOutcomeOf(await ask({ method: 'PUT', url, body }), [201]);
}

/** Time since the object was written, by the clock of Swift; 0 if the answer does not say. */
function ageOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): number {
  const ageMs = Date.parse(headers.date ?? '') - Date.parse(headers['last-modified'] ?? '');
  return Number.isFinite(ageMs) ? ageMs : 0;
}

function etagOf({ headers }: Extract<HttpResult, { kind: 'answer' }>): string | undefined {
  return headers.etag?.replaceAll('"', '');
}

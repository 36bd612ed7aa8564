/** Sends a signal over the transport of its handle, and interprets the answer. */

import { createHmac, hash } from 'node:crypto';
import { isWireMap, type WireValue } from '#minion-protocol';
import { type HttpResult, type OutgoingRequest, writeJson } from '#runtime';
import { logInToKeystone } from '../openstack/log-in.ts';
import {
  type DeliveryOutcome,
  deliveryOutcomeOf,
  errorTextOf,
} from '../openstack/service-answer.ts';
import { publicServiceUrl, zaqarClientId } from '../openstack/service-catalog.ts';
import type { Destination, Transport } from './destination.ts';

// What a guest says with a signal, as Heat takes it: read, bounded, and never trusted for its id.

/** A value that JSON can carry. */
type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

/** A signal without its id, which the bridge makes. */
export interface Signal {
  /** Heat knows no other word, and takes none in small letters [heat WaitConditionHandle]. */
  readonly status: 'SUCCESS' | 'FAILURE';
  /** Why; of a FAILURE Heat shows it as the reason of the stack. */
  readonly reason?: string;
  /** What the condition's attribute `data` holds under the id. */
  readonly data?: Json;
}

/** Why something that a minion said is no signal. */
export type SignalProblem =
  | 'bytes'
  | 'data-no-json'
  | 'field-unknown'
  | 'not-a-map'
  | 'reason-no-text'
  | 'status-unknown';

/** A longer reason is cut: that something failed must not be lost over how it was told. */
const maxReasonLength = 2_048;

/**
 * Reads `status`, `reason` and `data`, none of which is needed. Any other field is refused, as Heat
 * would drop the whole signal without a word for it; so is `id`, by which one guest could count twice.
 * @param maxBytes - of the signal as JSON
 */
export function parseSignal(
  said: WireValue | undefined,
  maxBytes: number,
): { readonly ok: true; readonly signal: Signal } | { ok: false; complaint: SignalProblem } {
  if (said === undefined || said === null) return { ok: true, signal: { status: 'SUCCESS' } };
  if (!isWireMap(said)) return { ok: false, complaint: 'not-a-map' };
  const { status = 'SUCCESS', reason = null, data = null, ...others } = said;
  if (Object.keys(others).length > 0) return { ok: false, complaint: 'field-unknown' };
  if (status !== 'SUCCESS' && status !== 'FAILURE') {
    return { ok: false, complaint: 'status-unknown' };
  }
  if (reason !== null && typeof reason !== 'string') {
    return { ok: false, complaint: 'reason-no-text' };
  }
  const json = tryToJson(data);
  if (json === undefined) return { ok: false, complaint: 'data-no-json' };
  const signal: Signal = {
    status,
    ...(reason === null ? {} : { reason: truncateReason(reason) }),
    ...(json === null ? {} : { data: json }),
  };
  const bytes = Buffer.byteLength(writeJson(signal));
  return bytes > maxBytes ? { ok: false, complaint: 'bytes' } : { ok: true, signal };
}

/**
 * The id under which Heat counts: that of the minion, and of the member where the handle has some.
 * No id of a minion holds a slash, so no two can be the same.
 */
export function signalId(minion: string, member: string | undefined): string {
  return member === undefined ? minion : `${minion}/${member}`;
}

function truncateReason(reason: string): string {
  if (reason.length <= maxReasonLength) return reason;
  return `${[...reason].slice(0, maxReasonLength - 1).join('')}…`;
}

/** Bytes and dates have no form in JSON that Heat would read as what they are. */
function tryToJson(value: WireValue): Json | undefined {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (Array.isArray(value)) {
    const items = value.map(tryToJson);
    return items.every((item) => item !== undefined) ? items : undefined;
  }
  if (!isWireMap(value)) return undefined;
  const entries: [string, Json][] = [];
  for (const [name, content] of Object.entries(value)) {
    const item = tryToJson(content);
    if (item === undefined) return undefined;
    entries.push([name, item]);
  }
  return Object.fromEntries(entries);
}

// The interface of a transport.

/** A signal on its way. */
export interface Delivery<D extends Destination = Destination> {
  readonly destination: D;
  /** The record's own name, the same at each try. */
  readonly recordId: string;
  readonly alias: string;
  readonly minion: string;
  readonly member: string | undefined;
  /** The id under which Heat counts. */
  readonly signalId: string;
  readonly signal: Signal;
  /** Tries before this one since the process started. */
  readonly failures: number;
  /** When the handle ends, milliseconds since 1970. */
  readonly expiresAt: number;
  readonly now: () => number;
  ask(request: OutgoingRequest): Promise<HttpResult>;
}

/** Tries once to bring a signal to where it belongs. */
type Deliver<D extends Destination> = (delivery: Delivery<D>) => Promise<DeliveryOutcome>;

/** The destination of a transport. */
type DestinationOf<T extends Transport> = Extract<Destination, { transport: T }>;

/**
 * The signal as an `OS::Heat::WaitConditionHandle` takes it. Always with its id: without one each
 * try would count as one more.
 */
function heatBody({ signal, signalId }: Delivery): string {
  return writeJson({ ...signal, id: signalId });
}

// TOKEN_SIGNAL and HEAT_SIGNAL: `POST` to the signal address of heat-api.

/** The token is all there is: when it ends, so does the handle. */
async function deliverTokenSignal(
  delivery: Delivery<DestinationOf<'TOKEN_SIGNAL'>>,
): Promise<DeliveryOutcome> {
  const { url, token } = delivery.destination;
  return deliveryOutcomeOf(await postSignal(delivery, url, token), [200]);
}

/** Tokens are kept in memory until heat-api refuses one; then one log-in more decides. */
function createHeatSignalDeliverer(): Deliver<DestinationOf<'HEAT_SIGNAL'>> {
  const tokens = new Map<string, string>();
  return async (delivery) => {
    const { alias, destination } = delivery;
    const key = JSON.stringify([alias, destination.userId]);
    const known = tokens.get(key);
    if (known !== undefined) {
      const exchange = await postSignal(delivery, destination.url, known);
      if (exchange.kind !== 'answer' || exchange.status !== 401)
        return deliveryOutcomeOf(exchange, [200]);
      tokens.delete(key);
    }
    const login = await logInToKeystone(delivery.ask, destination);
    if (!login.isIn) return login.outcome;
    const exchange = await postSignal(delivery, destination.url, login.token);
    const outcome = deliveryOutcomeOf(exchange, [200]);
    if (outcome.kind === 'delivered') rememberToken(tokens, key, login.token);
    return outcome;
  };
}

const maxCachedTokens = 10_000;

/** The oldest goes: that handle logs in once more. */
function rememberToken(tokens: Map<string, string>, key: string, token: string): void {
  tokens.delete(key);
  tokens.set(key, token);
  const [oldest] = tokens.keys();
  if (tokens.size > maxCachedTokens && oldest !== undefined) tokens.delete(oldest);
}

function postSignal(delivery: Delivery, url: string, token: string): Promise<HttpResult> {
  return delivery.ask({
    method: 'POST',
    url,
    headers: { 'x-auth-token': token },
    body: heatBody(delivery),
  });
}

// CFN_SIGNAL and the AWS handle: `PUT` to a pre-signed address of heat-api-cfn.

/**
 * heat-api-cfn answers 500 also where it will never take the signal, and takes a minute for some; a
 * signal that it refuses so often is given up.
 */
const maxServerErrors = 4;

function deliverCfnSignal(
  delivery: Delivery<DestinationOf<'CFN_SIGNAL'>>,
): Promise<DeliveryOutcome> {
  return putPreSigned(delivery, delivery.destination.url, heatBody(delivery));
}

/** All four fields are required, and all are text [heat AWS::CloudFormation::WaitConditionHandle]. */
function deliverAwsSignal(
  delivery: Delivery<DestinationOf<'AWS_SIGNAL'>>,
): Promise<DeliveryOutcome> {
  const { status, reason = 'signal received', data = '' } = delivery.signal;
  const body = JSON.stringify({
    Status: status,
    Reason: reason,
    Data: typeof data === 'string' ? data : writeJson(data),
    UniqueId: delivery.signalId,
  });
  return putPreSigned(delivery, delivery.destination.url, body);
}

async function putPreSigned(
  delivery: Delivery,
  url: string,
  body: string,
): Promise<DeliveryOutcome> {
  const exchange = await delivery.ask({ method: 'PUT', url, body });
  if (
    exchange.kind === 'answer' &&
    exchange.status === 500 &&
    delivery.failures + 1 >= maxServerErrors
  ) {
    return { kind: 'final', reason: errorTextOf(exchange) };
  }
  return deliveryOutcomeOf(exchange, [200]);
}

// TEMP_URL_SIGNAL: an object in Swift, which Heat polls once a second.

/** What Heat writes when it has taken a signal. */
const unreadSignalEtag = hash('md5', 'in progress');

/**
 * Each `PUT` replaces what lies there, and one that comes while Heat reads is lost. So the next
 * signal waits until Heat has taken the last one; `HEAD` tells by the digest of the object. Where our
 * own lies there already, only its answer was lost.
 */
async function deliverTempUrlSignal(
  delivery: Delivery<DestinationOf<'TEMP_URL_SIGNAL'>>,
): Promise<DeliveryOutcome> {
  const { url } = delivery.destination;
  const body = heatBody(delivery);
  const look = await delivery.ask({ method: 'HEAD', url });
  if (look.kind === 'answer' && look.status === 200) {
    const etag = look.headers.etag?.replaceAll('"', '');
    if (etag === hash('md5', body)) return { kind: 'delivered' };
    if (etag !== unreadSignalEtag) {
      const reason = 'Heat has not taken the signal before this one';
      return { kind: 'again', reason, isTurn: true };
    }
  }
  // Where looking is refused, the answer to PUT has words for it; that to HEAD has none.
  if (look.kind !== 'answer' || look.status >= 500) return deliveryOutcomeOf(look, []);
  return deliveryOutcomeOf(await delivery.ask({ method: 'PUT', url, body }), [201]);
}

// WEBHOOK: a signed message in the form of Standard Webhooks 1.0.

const webhookSuccess = [200, 201, 202, 204];

/**
 * The id stays the same at each try, so that a receiver can tell a message that comes again; it is
 * signed with every key of the endpoint, so that either may be retired first.
 */
async function deliverWebhook(
  delivery: Delivery<DestinationOf<'WEBHOOK'>>,
): Promise<DeliveryOutcome> {
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
        .map((key) => signWebhook(key, `${recordId}.${seconds}.${body}`))
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

// ZAQAR_SIGNAL: a message in a queue that Heat polls once a second.

/** Zaqar's own bounds, seconds. */
const [leastTtl, mostTtl] = [60, 1_209_600];

/**
 * Logs in for every signal: Zaqar takes messages for a while after their stack is gone, and the
 * log-in is the only sign of that.
 */
async function deliverZaqarSignal(
  delivery: Delivery<DestinationOf<'ZAQAR_SIGNAL'>>,
): Promise<DeliveryOutcome> {
  const { destination, signal, signalId, expiresAt, now } = delivery;
  const login = await logInToKeystone(delivery.ask, destination);
  if (!login.isIn) return login.outcome;
  const service = publicServiceUrl(login.body, 'messaging', destination.regionName);
  if (service === undefined) {
    return { kind: 'final', reason: 'the log-in names no public messaging service of the region' };
  }
  const ttl = Math.ceil((expiresAt - now()) / 1000);
  const exchange = await delivery.ask({
    method: 'POST',
    url: `${service}/v2/queues/${encodeURIComponent(destination.queueId)}/messages`,
    headers: { 'x-auth-token': login.token, 'client-id': zaqarClientId },
    body: writeJson({
      messages: [
        {
          body: { ...signal, id: signalId },
          ttl: Math.min(mostTtl, Math.max(leastTtl, ttl)),
        },
      ],
    }),
  });
  return deliveryOutcomeOf(exchange, [201]);
}

// The table.

/** Tries once, over the transport of the destination. */
export function createDeliverer(): (delivery: Delivery) => Promise<DeliveryOutcome> {
  const deliverHeatSignal: Deliver<DestinationOf<'HEAT_SIGNAL'>> = createHeatSignalDeliverer();
  return (delivery) => {
    const { destination } = delivery;
    switch (destination.transport) {
      case 'AWS_SIGNAL':
        return deliverAwsSignal({ ...delivery, destination });
      case 'CFN_SIGNAL':
        return deliverCfnSignal({ ...delivery, destination });
      case 'TEMP_URL_SIGNAL':
        return deliverTempUrlSignal({ ...delivery, destination });
      case 'TOKEN_SIGNAL':
        return deliverTokenSignal({ ...delivery, destination });
      case 'HEAT_SIGNAL':
        return deliverHeatSignal({ ...delivery, destination });
      case 'ZAQAR_SIGNAL':
        return deliverZaqarSignal({ ...delivery, destination });
      case 'WEBHOOK':
        return deliverWebhook({ ...delivery, destination });
    }
  };
}

/** Interprets the responses of Heat, Keystone and Zaqar. */

import type { HttpResult } from '#runtime';

/** Outcome of one attempt to deliver a signal or result to a service. */
export type DeliveryOutcome =
  | { readonly kind: 'delivered'; readonly httpStatus?: number }
  /** The delivery failed, but may be retried with the same id. */
  | {
      readonly kind: 'again';
      readonly reason: string;
      /** HTTP status of the response. Absent if there was no response. */
      readonly httpStatus?: number;
      /**
       * Present if the service works, but has not read the previous signal yet. The next delivery
       * must wait until the service has read it.
       */
      readonly isTurn?: true;
    }
  /** The delivery failed, and must not be retried. */
  | { readonly kind: 'final'; readonly reason: string; readonly httpStatus?: number };

/** HTTP status codes below 500 after which a retry can succeed. */
const retryableStatuses: ReadonlySet<number> = new Set([408, 425, 429]);
/** Maximum length of the reason of a failure, in characters. */
const maxReasonLength = 300;

/**
 * Converts the result of a request to an outcome.
 * @param done - HTTP statuses that mean success
 */
export function deliveryOutcomeOf(exchange: HttpResult, done: readonly number[]): DeliveryOutcome {
  if (exchange.kind === 'forbidden') return { kind: 'final', reason: exchange.reason };
  if (exchange.kind === 'unreachable') return { kind: 'again', reason: exchange.reason };
  const { status } = exchange;
  if (done.includes(status)) return { kind: 'delivered', httpStatus: status };
  const reason = errorTextOf(exchange);
  if (status >= 500 || retryableStatuses.has(status))
    return { kind: 'again', reason, httpStatus: status };
  return { kind: 'final', reason, httpStatus: status };
}

/**
 * Returns the status and the error text of a response. The text is the message in the JSON of Heat,
 * Keystone or Zaqar, or in the XML of heat-api-cfn. Other responses are treated as plain text. The
 * text may be long and contain secrets. Pass it to {@link redactSecrets} before it is shown.
 */
export function errorTextOf({ status, body }: Extract<HttpResult, { kind: 'answer' }>): string {
  const words = jsonErrorMessage(body) ?? xmlErrorMessage(body) ?? plainTextOf(body);
  const printable = words.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return printable === '' ? `answered ${status}` : `answered ${status}: ${printable}`;
}

/**
 * Removes secrets from the reason of a failure, and then shortens the reason. The reason may quote
 * the response of a service, and the response may repeat parts of the request. If the reason was
 * shortened first, a part of a secret could remain at its end.
 */
export function redactSecrets<Outcome extends object>(
  outcome: Outcome,
  secrets: readonly string[],
): Outcome {
  if (!('reason' in outcome) || typeof outcome.reason !== 'string') return outcome;
  // A longer secret may contain a shorter one.
  const reason = secrets
    .filter((secret) => secret !== '')
    .toSorted((one, other) => other.length - one.length)
    .reduce((text, secret) => text.replaceAll(secret, '(secret)'), outcome.reason);
  return { ...outcome, reason: reason.slice(0, maxReasonLength) };
}

function jsonErrorMessage(body: string): string | undefined {
  if (!body.startsWith('{')) return undefined;
  try {
    const answer = JSON.parse(body);
    const words = [
      answer.error?.message,
      answer.explanation,
      answer.description,
      answer.title,
    ].filter((it) => typeof it === 'string' && it !== '');
    return words.length === 0 ? undefined : words[0];
  } catch {
    return undefined;
  }
}

function xmlErrorMessage(body: string): string | undefined {
  const code = /<Code>([^<]*)<\/Code>/.exec(body)?.[1];
  const message = /<Message>([^<]*)<\/Message>/.exec(body)?.[1];
  const words = [code, message].filter((it) => it !== undefined && it !== '');
  return words.length === 0 ? undefined : words.join(': ');
}

function plainTextOf(body: string): string {
  return body.replace(/<[^<>]*>/g, ' ').replace(/\s+/g, ' ');
}

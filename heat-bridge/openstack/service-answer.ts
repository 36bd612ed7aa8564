/** Interprets the answers of Heat, Keystone and Zaqar. */

import type { HttpResult } from '#runtime';

/** Result of one attempt to deliver something to a service. */
export type DeliveryOutcome =
  | { readonly kind: 'delivered'; readonly httpStatus?: number }
  /** It may be tried again, under the same id. */
  | {
      readonly kind: 'again';
      readonly reason: string;
      /** What the service answered; absent: nothing came. */
      readonly httpStatus?: number;
      /** The service works; it is only not its turn. */
      readonly isTurn?: true;
    }
  /** The service has said its last word, or we have. */
  | { readonly kind: 'final'; readonly reason: string; readonly httpStatus?: number };

/** Statuses after which a service may answer otherwise the next time. */
const retryableStatuses: ReadonlySet<number> = new Set([408, 425, 429]);
const maxErrorText = 300;

/** @param done - the statuses that mean success */
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
 * The status, and what the service says of it: the message of Heat's, Keystone's and Zaqar's JSON
 * and of the XML of heat-api-cfn, else the first line of text.
 */
export function errorTextOf({ status, body }: Extract<HttpResult, { kind: 'answer' }>): string {
  const words = jsonErrorMessage(body) ?? xmlErrorMessage(body) ?? plainTextOf(body);
  const printable = words
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, maxErrorText);
  return printable === '' ? `answered ${status}` : `answered ${status}: ${printable}`;
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

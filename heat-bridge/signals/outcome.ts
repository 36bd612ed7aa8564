/** What an answer of a service means for a signal. */
import type { Exchange } from '../outgoing/exchange.ts';

/** What became of one try to deliver a signal. */
export type Outcome =
  | { readonly kind: 'delivered' }
  /** It may be tried again, under the same id. */
  | {
      readonly kind: 'again';
      readonly reason: string;
      /** The service works; it is only not its turn. */
      readonly isTurn?: true;
    }
  /** The service has said its last word, or we have. */
  | { readonly kind: 'final'; readonly reason: string };

/** Statuses after which a service may answer otherwise the next time. */
const passing: ReadonlySet<number> = new Set([408, 425, 429]);
const maxWords = 300;

/** @param done - the statuses that mean success */
export function outcomeOf(exchange: Exchange, done: readonly number[]): Outcome {
  if (exchange.kind === 'forbidden') return { kind: 'final', reason: exchange.reason };
  if (exchange.kind === 'unreachable') return { kind: 'again', reason: exchange.reason };
  const { status } = exchange;
  if (done.includes(status)) return { kind: 'delivered' };
  const reason = wordsOf(exchange);
  if (status >= 500 || passing.has(status)) return { kind: 'again', reason };
  return { kind: 'final', reason };
}

/**
 * The status, and what the service says of it: the message of Heat's, Keystone's and Zaqar's JSON
 * and of the XML of heat-api-cfn, else the first line of text.
 */
export function wordsOf({ status, body }: Extract<Exchange, { kind: 'answer' }>): string {
  const words = messageInJson(body) ?? messageInXml(body) ?? textOf(body);
  const printable = words
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, maxWords);
  return printable === '' ? `answered ${status}` : `answered ${status}: ${printable}`;
}

function messageInJson(body: string): string | undefined {
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

function messageInXml(body: string): string | undefined {
  const code = /<Code>([^<]*)<\/Code>/.exec(body)?.[1];
  const message = /<Message>([^<]*)<\/Message>/.exec(body)?.[1];
  const words = [code, message].filter((it) => it !== undefined && it !== '');
  return words.length === 0 ? undefined : words.join(': ');
}

function textOf(body: string): string {
  // protection: words-in-linear-time
  return body.replace(/<[^<>]*>/g, ' ').replace(/\s+/g, ' ');
}

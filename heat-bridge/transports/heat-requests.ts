/** Creates requests to Heat and Zaqar, and parses their JSON responses. */

import { parseExactJson } from '#master';
import { type HttpResult, type OutgoingRequest, writeJson } from '#runtime';
import { errorTextOf } from '../openstack/service-answer.ts';
import type { Delivery } from './transport.ts';

/** Limit on the size of a response. */
export interface AnswerLimit {
  /** Maximum size, in bytes. Larger responses are rejected. */
  readonly maxBytes: number;
}

/**
 * Creates a GET request.
 * @param url - URL of the request. If it is `undefined`, because the service catalog lacks the
 * service, the result is `undefined` too
 */
export function getRequest(
  url: string | undefined,
  limit: AnswerLimit,
): OutgoingRequest | undefined {
  return url === undefined ? undefined : { method: 'GET', url, ...limitOf(limit) };
}

/**
 * Returns the limit for an HTTP request: `maxBytes` and one more byte. The HTTP client discards the
 * rest of a larger response. The additional byte shows that the response was too large.
 */
export function limitOf({ maxBytes }: AnswerLimit): { readonly maxAnswerBytes: number } {
  return { maxAnswerBytes: maxBytes + 1 };
}

/**
 * Parses the JSON of a response with the status 200. Floats without a fraction become `Float`.
 * Returns `undefined` for the status 204. Otherwise returns the reason why there is no JSON.
 */
export function jsonOf(
  result: HttpResult,
  limit: AnswerLimit,
): { readonly ok: true; readonly body: unknown } | { readonly ok: false; readonly reason: string } {
  const answer = textOfAnswer(result, limit);
  if (!answer.ok) return answer;
  if (answer.text === undefined) return { ok: true, body: undefined };
  try {
    return { ok: true, body: parseExactJson(answer.text) };
  } catch {
    return { ok: false, reason: 'the response is not JSON' };
  }
}

/**
 * Returns the text of a response with the status 200, or `undefined` for the status 204. Otherwise
 * returns the reason why there is no text.
 */
export function textOfAnswer(
  result: HttpResult,
  { maxBytes }: AnswerLimit,
):
  | { readonly ok: true; readonly text: string | undefined }
  | { readonly ok: false; readonly reason: string } {
  if (result.kind !== 'answer') return { ok: false, reason: result.reason };
  if (result.status === 204) return { ok: true, text: undefined };
  if (result.status !== 200) return { ok: false, reason: errorTextOf(result) };
  if (Buffer.byteLength(result.body) > maxBytes) {
    return { ok: false, reason: `the response exceeds ${maxBytes} bytes` };
  }
  return { ok: true, text: result.body };
}

/** URL-encodes each segment of a path. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/**
 * Serializes a signal together with its id. Without an id, Heat would count each attempt as a
 * separate signal.
 */
export function heatBody({
  record,
  signalId,
}: Pick<Delivery<unknown>, 'record' | 'signalId'>): string {
  const { reason, ...signal } = record.signal;
  const text = reason === undefined ? {} : { reason: storableReason(reason) };
  return writeJson({ ...signal, ...text, id: signalId });
}

/**
 * Returns a reason that Heat can store. Heat's database columns use three-byte UTF-8. If a reason
 * contained another character, the engine would abort its work on the stack, and the stack would
 * stay in progress.
 */
export function storableReason(reason: string): string {
  return reason.toWellFormed().replace(/[\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

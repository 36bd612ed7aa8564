/** Requests to Heat and Zaqar, and their JSON responses. */

import { type HttpResult, type OutgoingRequest, tryParseJson, writeJson } from '#runtime';
import { errorTextOf } from '../openstack/service-answer.ts';
import type { Delivery } from './transport.ts';

/** Size limit of a response. */
export interface AnswerLimit {
  /** Maximum size, in bytes. Larger responses are rejected. */
  readonly maxBytes: number;
}

/**
 * Creates a GET request.
 * @param url - `undefined` if the service catalog lacks the service; the result is `undefined`
 * then
 */
export function getRequest(
  url: string | undefined,
  limit: AnswerLimit,
): OutgoingRequest | undefined {
  return url === undefined ? undefined : { method: 'GET', url, ...limitOf(limit) };
}

/**
 * Returns a limit that is one byte higher, so that a response that exceeds the maximum can be
 * detected.
 */
export function limitOf({ maxBytes }: AnswerLimit): { readonly maxAnswerBytes: number } {
  return { maxAnswerBytes: maxBytes + 1 };
}

/**
 * Parses the JSON of a response with status 200 (`undefined` for 204), or returns the reason why
 * there is none.
 */
export function jsonOf(
  result: HttpResult,
  { maxBytes }: AnswerLimit,
): { readonly ok: true; readonly body: unknown } | { readonly ok: false; readonly reason: string } {
  if (result.kind !== 'answer') return { ok: false, reason: result.reason };
  if (result.status === 204) return { ok: true, body: undefined };
  if (result.status !== 200) return { ok: false, reason: errorTextOf(result) };
  if (Buffer.byteLength(result.body) > maxBytes) {
    return { ok: false, reason: `the response exceeds ${maxBytes} bytes` };
  }
  const body = tryParseJson(result.body);
  return body === undefined
    ? { ok: false, reason: 'the response is not JSON' }
    : { ok: true, body };
}

/** Encodes each segment of a path. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/**
 * Serializes the signal with its id. Without an id, Heat would count each attempt as another
 * signal.
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
 * Returns a reason that Heat can store. Its database columns use three-byte UTF-8. A character
 * beyond them aborts the engine's work on the stack, which then stays in progress.
 */
export function storableReason(reason: string): string {
  return reason.toWellFormed().replace(/[\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

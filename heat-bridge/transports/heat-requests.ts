/** Requests to Heat and Zaqar, and their JSON answers. */

import { type HttpResult, type OutgoingRequest, tryParseJson, writeJson } from '#runtime';
import { errorTextOf } from '../openstack/service-answer.ts';
import type { Delivery } from './transport.ts';

/** Bounds of an answer. */
export interface AnswerLimit {
  /** A longer answer is refused. */
  readonly maxBytes: number;
}

/** @param url - `undefined`: the catalog has no such service */
export function getRequest(
  url: string | undefined,
  limit: AnswerLimit,
): OutgoingRequest | undefined {
  return url === undefined ? undefined : { method: 'GET', url, ...limitOf(limit) };
}

/** One byte more, so that a longer answer is distinguished from one that just fits. */
export function limitOf({ maxBytes }: AnswerLimit): { readonly maxAnswerBytes: number } {
  return { maxAnswerBytes: maxBytes + 1 };
}

/** The JSON of an answer with status 200 (204: nothing), or why there is none. */
export function jsonOf(
  result: HttpResult,
  { maxBytes }: AnswerLimit,
): { readonly ok: true; readonly body: unknown } | { readonly ok: false; readonly reason: string } {
  if (result.kind !== 'answer') return { ok: false, reason: result.reason };
  if (result.status === 204) return { ok: true, body: undefined };
  if (result.status !== 200) return { ok: false, reason: errorTextOf(result) };
  if (Buffer.byteLength(result.body) > maxBytes) {
    return { ok: false, reason: `the metadata has more than ${maxBytes} bytes` };
  }
  const body = tryParseJson(result.body);
  return body === undefined ? { ok: false, reason: 'the answer is no JSON' } : { ok: true, body };
}

/** Encodes each part of a path by itself. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/** Writes the signal with its id: without one, Heat would count each try as another signal. */
export function heatBody({
  record,
  signalId,
}: Pick<Delivery<unknown>, 'record' | 'signalId'>): string {
  const { reason, ...signal } = record.signal;
  const text = reason === undefined ? {} : { reason: storableReason(reason) };
  return writeJson({ ...signal, ...text, id: signalId });
}

/**
 * A reason that Heat can store. Its database has columns of three-byte UTF-8: a character beyond them
 * ends the engine's work on the stack, which then stays in progress.
 */
export function storableReason(reason: string): string {
  return reason.toWellFormed().replace(/[\u{10000}-\u{10ffff}]/gu, '\ufffd');
}

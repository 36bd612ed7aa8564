import { hash } from 'node:crypto';
import type { VerifiedRequest } from './request.ts';

/**
 * Tells a request of a minion from its others, 32 bytes: a digest of nonce and load as the minion
 * packed them. Clients send the same bytes again; those of protocol 2 also encrypt a request again
 * under the nonce that it had, after they have signed in anew [WIRE 4.4]. Where there is no nonce,
 * two requests may say the same, and only the same bytes are the same request.
 */
export function markOf({ nonce, packed, mac }: VerifiedRequest): Buffer {
  return nonce === undefined ? mac : hash('sha256', packed, 'buffer');
}

/** The same as text, to be kept beside the effect of the request. */
export function requestMark(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}

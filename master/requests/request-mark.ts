import { hash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import type { VerifiedRequest } from './request.ts';

/**
 * Tells a request of a minion from its others, 32 bytes. Clients send the same bytes again, and
 * those have the same HMAC. Those of protocol 2 also encrypt a request again with the nonce that it
 * had, after they have signed in anew; those of protocol 3 do so with pillar requests only
 * [WIRE 4.4].
 */
export function markOf(request: VerifiedRequest): Buffer {
  const { version, nonce, load, mac } = request;
  if (version !== 2 || nonce === undefined) return mac;
  return hash('sha256', packWire([nonce, load]), 'buffer');
}

/** The same as text, to be kept beside the effect of the request. */
export function requestMark(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}

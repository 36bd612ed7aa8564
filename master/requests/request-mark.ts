import { hash } from 'node:crypto';
import { packWire } from '../../minion-protocol/index.ts';
import type { VerifiedRequest } from './request.ts';

/**
 * Tells a request of a minion from its others, 32 bytes: a digest of nonce and load, but `ts`,
 * because a client that repeats a request may encrypt and stamp it anew [WIRE 4.4]. Where there is
 * no nonce, two requests may say the same, and only the same bytes are the same request.
 */
export function markOf({ nonce, load, mac }: VerifiedRequest): Buffer {
  // protection: encrypted-again
  if (nonce === undefined) return mac;
  const { ts: _ts, ...rest } = load;
  return hash('sha256', packWire([nonce, rest]), 'buffer');
}

/** The same as text, to be kept beside the effect of the request. */
export function requestMark(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}

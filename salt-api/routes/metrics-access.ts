/** Checks the access to `/metrics`. */

import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { FastifyRequest } from 'fastify';
import { SaltApiError } from '../errors.ts';
import { isLocalName, isLoopback } from '../host-guard.ts';

/**
 * Checks a request.
 * @throws SaltApiError ERR_HTTP_SESSION, or ERR_HTTP_UNKNOWN if metrics are hidden from the caller
 */
type MetricsAccessCheck = (request: FastifyRequest) => void;

/** Minimum length of a token. It makes guessing infeasible. */
const minTokenLength = 16;

/**
 * Creates the access check.
 * @param access `loopback`: callers on this machine, except through a proxy; otherwise the path of
 *   a file with a bearer token
 * @throws SaltApiError ERR_HTTP_LISTEN for an unusable file
 */
export async function createMetricsAccessCheck(access: string): Promise<MetricsAccessCheck> {
  if (access === 'loopback') return requireLoopback;
  const expected = digest(await readToken(access));
  return ({ headers }) => {
    const [, token = ''] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    if (timingSafeEqual(digest(token), expected)) return;
    throw new SaltApiError('ERR_HTTP_SESSION', 'missing or invalid bearer token');
  };
}

/**
 * Rejects callers from other machines. A proxy on this machine forwards requests of others, and a
 * page in a local browser may use a name that resolves to this server: neither counts as local.
 */
function requireLoopback({ headers, ip }: FastifyRequest): void {
  const isForwarded = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'via'].some(
    (name) => headers[name] !== undefined,
  );
  const isNamedSo = isLocalName(headers.host ?? '');
  if (isLoopback(ip) && isNamedSo && !isForwarded) return;
  throw new SaltApiError('ERR_HTTP_UNKNOWN', 'metrics can only be read on this machine');
}

async function readToken(file: string): Promise<string> {
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: cannot be read`, { cause });
  }
  if (/^\S+$/.test(token) && token.length >= minTokenLength) return token;
  const expected = `expected one word of ${minTokenLength} characters or more`;
  throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: ${expected}`);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

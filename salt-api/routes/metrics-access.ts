/** Checks the access to `/metrics`. */

import { readFile } from 'node:fs/promises';
import type { FastifyRequest } from 'fastify';
import { isSameSecret } from '#runtime';
import { SaltApiError } from '../errors.ts';
import { isLocalName, isLoopback } from '../host-guard.ts';

/**
 * Function that checks whether a request may read metrics.
 * @throws SaltApiError ERR_HTTP_SESSION, or ERR_HTTP_UNKNOWN if the existence of metrics is hidden
 * from the caller
 */
type MetricsAccessCheck = (request: FastifyRequest) => void;

/** Minimum length of a token in characters. Shorter ones could be guessed. */
const minTokenLength = 16;

/**
 * Creates the access check.
 * @param access - `loopback` allows callers on this machine, except through a proxy; any other
 * value is the path of a file with a bearer token
 * @throws SaltApiError ERR_HTTP_LISTEN for an unusable file
 */
export async function createMetricsAccessCheck(access: string): Promise<MetricsAccessCheck> {
  if (access === 'loopback') return requireLoopback;
  const expected = await readToken(access);
  return ({ headers }) => {
    const [, token = ''] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    if (isSameSecret(token, expected)) return;
    throw new SaltApiError('ERR_HTTP_SESSION', 'missing or invalid bearer token');
  };
}

/**
 * Rejects callers from other machines. Rejects requests through a local proxy, because the proxy
 * may forward requests of other machines. Rejects requests whose header `Host` names another host,
 * because a page of another site in a local browser may have sent them.
 */
function requireLoopback({ headers, ip }: FastifyRequest): void {
  const isForwarded = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'via'].some(
    (name) => headers[name] !== undefined,
  );
  const isNamedSo = isLocalName(headers.host ?? '');
  if (isLoopback(ip) && isNamedSo && !isForwarded) return;
  throw new SaltApiError('ERR_HTTP_UNKNOWN', "metrics can only be read on the master's host");
}

async function readToken(file: string): Promise<string> {
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: cannot read the token file`, { cause });
  }
  if (/^\S+$/.test(token) && token.length >= minTokenLength) return token;
  const expected = `the token file must contain one token of at least ${minTokenLength} characters`;
  throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: ${expected}`);
}

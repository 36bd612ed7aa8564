/** Checks who may read `/metrics`. */

import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { FastifyRequest } from 'fastify';
import { SaltApiError } from '../errors.ts';
import { isLocalName, isLoopback } from '../host-guard.ts';

/** @throws SaltApiError ERR_HTTP_UNKNOWN where it is not served to them, ERR_HTTP_SESSION */
type MetricsAccessCheck = (request: FastifyRequest) => void;

/** What a token of this length is guessed by is not worth trying. */
const minTokenLength = 16;

/**
 * @param access `loopback`: whoever asks on this machine, not through a proxy; else the path of a
 * file with a bearer token
 * @throws SaltApiError ERR_HTTP_LISTEN for a file that cannot be used
 */
export async function createMetricsAccessCheck(access: string): Promise<MetricsAccessCheck> {
  if (access === 'loopback') return requireLoopback;
  const expected = digest(await readToken(access));
  return ({ headers }) => {
    const [, token = ''] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    if (timingSafeEqual(digest(token), expected)) return;
    throw new SaltApiError('ERR_HTTP_SESSION', 'no bearer token, or another');
  };
}

/**
 * A proxy on this machine asks for others, and a page in its browser may have a name that leads
 * here: neither is somebody on this machine.
 */
function requireLoopback({ headers, ip }: FastifyRequest): void {
  const isForwarded = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'via'].some(
    (name) => headers[name] !== undefined,
  );
  const isNamedSo = isLocalName(headers.host ?? '');
  if (isLoopback(ip) && isNamedSo && !isForwarded) return;
  throw new SaltApiError('ERR_HTTP_UNKNOWN', 'metrics are read on this machine');
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

/**
 * HTTP requests that a site sends to a centre without a connection for messages, for example to
 * join.
 */

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { awaitResponse, readText } from '#runtime';
import { EdgeError, type EdgeErrorCode, edgeErrors } from '../errors.ts';
import { maxRootBytes } from './join-message.ts';

/** Time after which a request without a complete reply fails, in milliseconds. */
const requestMs = 120_000;
const maxReplyBytes = 2 * maxRootBytes;

/** HTTP status of a reply of the centre, and its parsed JSON body. */
export interface JsonReply {
  readonly status: number;
  readonly value: unknown;
}

/**
 * Sends a request, and returns the reply with any status.
 * @param ca - CA of the certificate of the centre, PEM. Default: the CAs of the system
 * @param timeMs - time for the whole exchange, in milliseconds
 * @throws EdgeError ERR_SITE_LINK if the centre cannot be reached, or the reply is not JSON
 */
export async function postJson(
  url: string,
  body: object,
  ca: string | Uint8Array | undefined,
  { signal, timeMs = requestMs }: { readonly signal?: AbortSignal; readonly timeMs?: number } = {},
): Promise<JsonReply> {
  const content = JSON.stringify(body);
  const certificates = ca === undefined ? {} : { ca: Buffer.from(ca) };
  const send = url.startsWith('https:') ? httpsRequest : httpRequest;
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(content),
  };
  const stop = signal === undefined ? {} : { signal };
  const request = send(url, { method: 'POST', headers, agent: false, ...certificates, ...stop });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    request.destroy();
  }, timeMs);
  const awaited = awaitResponse(request);
  request.end(content);
  const reply = readReply(awaited).finally(() => clearTimeout(timer));
  const { status, text } = await reply.catch((cause: Error) => {
    const why = isLate ? `no complete reply within ${timeMs / 1000} s` : cause.message;
    throw new EdgeError('ERR_SITE_LINK', `cannot reach ${url}: ${why}`, { cause });
  });
  try {
    return { status, value: JSON.parse(text) };
  } catch (cause) {
    const problem = `${url} is not a centre: it replied with the status ${status}`;
    throw new EdgeError('ERR_SITE_LINK', `${problem}; check the address in the ticket`, { cause });
  }
}

async function readReply(
  awaited: Promise<IncomingMessage>,
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await awaited;
  const tooLarge = () => new Error('the reply of the centre exceeds the maximum size');
  const text = await readText(response, maxReplyBytes, tooLarge);
  return { status: response.statusCode ?? 0, text };
}

/**
 * Returns the error that the reply of a centre describes, or ERR_SITE_LINK if the reply has no
 * known error code.
 */
export function refusalOf(url: string, status: number, value: unknown): EdgeError {
  const error: unknown = Object(Object(value).error);
  const { code, message } = Object(error);
  const isKnown = typeof code === 'string' && Object.hasOwn(edgeErrors, code);
  const known = isKnown ? (code as EdgeErrorCode) : 'ERR_SITE_LINK';
  const reason = typeof message === 'string' ? message : `status ${status}`;
  return new EdgeError(known, `${url} refused the request: ${reason}`);
}

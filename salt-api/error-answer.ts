/**
 * Sends responses to failed requests: status and code, and the reason if the request was malformed
 * [THREATS A-21].
 */

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';

/**
 * HTTP status of each error code that other modules of saltbridge define. An error with a code that
 * is not listed is answered with status 500, unless the error itself has a status.
 */
const statuses: ReadonlyMap<string, number> = new Map([
  ['ERR_ARGS', 400],
  ['ERR_BAD_TGT', 400],
  ['ERR_CLUSTER_ALONE', 503],
  ['ERR_DENIED', 401],
  ['ERR_EAUTH', 401],
  ['ERR_EAUTH_LIMIT', 429],
  ['ERR_EAUTH_TOKEN', 401],
  ['ERR_EAUTH_UNAVAILABLE', 503],
  ['ERR_JOB_LIMIT', 503],
  ['ERR_KEY_ID', 400],
  ['ERR_KEY_STATE', 409],
  ['ERR_LIMIT', 429],
  ['ERR_MASTER_DRAINING', 503],
  ['ERR_MASTER_STOPPED', 503],
  ['ERR_NODEGROUP_LOOP', 400],
  // Salt responds with status 500 to an unknown nodegroup, and its clients expect this.
  ['ERR_NODEGROUP_UNKNOWN', 500],
  ['ERR_NOT_SERVED', 500],
  ['ERR_UNKNOWN_FUN', 500],
  ['ERR_SOCKET', 503],
  ['ERR_STORE_FULL', 503],
  ['ERR_STORE_UNAVAILABLE', 503],
  ['ERR_WORK_LIMIT', 400],
]);

/** Our error codes for errors of fastify. */
const fastifyCodes: ReadonlyMap<string, string> = new Map([
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'ERR_HTTP_BODY'],
  ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'ERR_HTTP_BODY'],
]);

/** Sends the response to a failed request. */
export function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  log: Logger,
): FastifyReply {
  const { status, code, message } = toErrorAnswer(error);
  const fields = { err: error, reference: request.id, status };
  if (code === 'ERR_INTERNAL') log.error(fields, 'internal error while handling an HTTP request');
  else log.debug(fields, 'rejected an HTTP request');
  reply.code(status).header('x-request-id', request.id);
  if (status === 503) reply.header('retry-after', '1');
  // The rest of the body is not read, so the connection cannot be reused.
  if (status === 413 || code === 'ERR_HTTP_BUSY') reply.header('connection', 'close');
  // Clients display this text of Salt.
  if (status === 500) return sendJson(reply, { status, return: 'An unexpected error occurred' });
  // The response must not reveal why a token or a right was rejected.
  if (status === 401) return sendJson(reply, { status, error: 'ERR_HTTP_SESSION' });
  return sendJson(reply, { status, error: code, ...(message === undefined ? {} : { message }) });
}

/** HTTP status codes whose responses contain the error message. */
const explained: ReadonlySet<number> = new Set([400, 406, 413]);

interface ErrorAnswer {
  readonly status: number;
  readonly code: string;
  readonly message?: string;
}

/** Returns the status, the code and, if it may be shown, the message for an error. */
export function toErrorAnswer(error: unknown): ErrorAnswer {
  const unexpected = { status: 500, code: 'ERR_INTERNAL' };
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return unexpected;
  }
  const { code } = error;
  const known =
    'status' in error && typeof error.status === 'number' ? error.status : statuses.get(code);
  if (known !== undefined) {
    return { status: known, code, ...(explained.has(known) ? { message: error.message } : {}) };
  }
  const status = 'statusCode' in error ? Number(error.statusCode) : 500;
  const isRefusal = code.startsWith('FST_') && status >= 400 && status < 500;
  return isRefusal ? { status, code: fastifyCodes.get(code) ?? 'ERR_HTTP_UNKNOWN' } : unexpected;
}

function sendJson(reply: FastifyReply, body: object): FastifyReply {
  return reply.type('application/json').send(JSON.stringify(body));
}

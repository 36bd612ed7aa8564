/** Converts errors to HTTP responses with status, code and remedy. */

import type { FastifyReply } from 'fastify';
import { BridgeError, bridgeErrors } from './errors.ts';

/** HTTP statuses for codes of the master's errors. */
const statusOfMasterError: ReadonlyMap<string, number> = new Map([
  ['ERR_ARGS', 400],
  ['ERR_BAD_TGT', 400],
  ['ERR_DENIED', 403],
  ['ERR_EAUTH', 401],
  ['ERR_EAUTH_LIMIT', 429],
  ['ERR_EAUTH_TOKEN', 401],
  ['ERR_EAUTH_UNAVAILABLE', 503],
  ['ERR_HTTP_BUSY', 503],
  ['ERR_JOB_LIMIT', 503],
  ['ERR_JOB_UNKNOWN', 404],
  ['ERR_LIMIT', 429],
  ['ERR_MASTER_STOPPED', 503],
  ['ERR_NODEGROUP_LOOP', 400],
  ['ERR_NODEGROUP_UNKNOWN', 400],
  ['ERR_STORE_FULL', 503],
  ['ERR_STORE_UNAVAILABLE', 503],
  ['ERR_WORK_LIMIT', 400],
]);

const retryAfterSeconds = 5;

/** Content of the HTTP response for an error. */
interface HttpProblem {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/**
 * Returns the content of the HTTP response for an error. The caller receives the message of an
 * error with a known code. For other errors, the caller receives no details, because they may be
 * internal.
 */
export function httpProblemOf(error: unknown): HttpProblem {
  if (error instanceof BridgeError) {
    return { status: bridgeErrors[error.code].status, code: error.code, message: error.message };
  }
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    const status = statusOfMasterError.get(error.code);
    if (status !== undefined) return { status, code: error.code, message: error.message };
  }
  const status = statusOfServerError(error);
  if (status >= 400 && status < 500) {
    return { status, code: 'ERR_ARGS', message: 'the HTTP request cannot be parsed' };
  }
  if (status === 503) {
    return { status, code: 'ERR_COMMAND_BUSY', message: 'the server is busy; retry later' };
  }
  return {
    status: 500,
    code: 'ERR_INTERNAL',
    message: 'internal error of the bridge; see its log',
  };
}

/** Returns the status for an error of the HTTP server itself. */
function statusOfServerError(error: unknown): number {
  if (!(error instanceof Error)) return 500;
  if ('statusCode' in error) return Number(error.statusCode);
  return 'status' in error ? Number(error.status) : 500;
}

const listed: ReadonlySet<string> = new Set(['ERR_COMMAND_DENIED', 'ERR_COMMAND_UNKNOWN']);

const described: ReadonlySet<string> = new Set(['ERR_COMMAND_PARAMETERS', 'ERR_PLAN_GROUPS']);

/**
 * Returns a hint to append to an error message: the request with which the caller can list or
 * describe the commands or plans that it may run. Returns an empty string if there is no such
 * request.
 */
function hintOf(code: string, url: string): string {
  const [, collection, name] = /^(.*?\/(?:commands|plans))(?:\/([^/?]+))?/.exec(url) ?? [];
  if (collection === undefined) return '';
  if (listed.has(code)) return `; GET ${collection} lists what you may call`;
  if (!described.has(code) || name === undefined) return '';
  return `; GET ${collection}/${name} describes it`;
}

/**
 * Sends the response for an error.
 * @param url - URL of the request, from which a hint for the error message is derived. If it is
 * empty, the message has no hint
 */
export function sendBridgeError(error: unknown, reply: FastifyReply, url = ''): FastifyReply {
  const { status, code, message: problem } = httpProblemOf(error);
  const message = `${problem}${hintOf(code, url)}`;
  if (code === 'ERR_INTERNAL')
    reply.log.error(
      { err: error },
      'internal error in an HTTP request to the bridge; the caller received status 500',
    );
  if (status === 503) reply.header('retry-after', retryAfterSeconds);
  // Close the connection, because the rest of the request body is not read.
  if (code === 'ERR_HTTP_BUSY') reply.header('connection', 'close');
  return reply.code(status).send({ error: { code, message } });
}

/** HTTP answers for errors: status, code, and remedy. */

import type { FastifyReply } from 'fastify';
import { BridgeError, type BridgeErrorCode } from './errors.ts';

const statusOfBridgeError: Readonly<Record<BridgeErrorCode, number>> = {
  ERR_BRIDGE_NOT_OPEN: 503,
  ERR_BRIDGE_OPTIONS: 500,
  ERR_CATALOG: 500,
  ERR_CFN_INIT: 400,
  ERR_COMMAND_BUSY: 429,
  ERR_COMMAND_DENIED: 403,
  ERR_COMMAND_KEY: 409,
  ERR_COMMAND_PARAMETERS: 400,
  ERR_COMMAND_TARGET: 404,
  ERR_COMMAND_UNKNOWN: 404,
  ERR_PLAN_GROUPS: 400,
  ERR_PLAN_UNKNOWN: 404,
  ERR_PROJECT: 403,
  ERR_RUN_UNKNOWN: 404,
  ERR_ENROLL_ARGS: 400,
  ERR_ENROLL_FAILED: 409,
  ERR_ENROLL_FULL: 503,
  ERR_ENROLL_OFF: 409,
  ERR_ENROLL_TAKEN: 409,
  ERR_ENROLL_UNKNOWN: 404,
  ERR_TICKET: 403,
  ERR_TICKET_BOUND: 403,
  ERR_TICKET_EXPIRED: 403,
  ERR_TICKET_KEY: 500,
  ERR_TICKET_SPENT: 403,
  ERR_DATA_ALTERED: 409,
  ERR_DATA_BUSY: 429,
  ERR_DATA_DENIED: 403,
  ERR_DATA_EXISTS: 409,
  ERR_DATA_FORM: 400,
  ERR_DATA_LIMIT: 503,
  ERR_DATA_QUOTA: 413,
  ERR_DATA_TIMEOUT: 504,
  ERR_DATA_UNAVAILABLE: 503,
  ERR_DATA_UNKNOWN: 404,
  ERR_DATA_VALUE: 400,
  ERR_DATA_WRITTEN: 409,
  ERR_HANDLE_AMBIGUOUS: 409,
  ERR_HANDLE_EXISTS: 409,
  ERR_HANDLE_FORM: 400,
  ERR_HANDLE_LIMIT: 503,
  ERR_HANDLE_UNKNOWN: 404,
  ERR_SIGNAL_QUOTA: 503,
  ERR_SIGNAL_UNKNOWN: 404,
  ERR_STACK_EXISTS: 409,
  ERR_STACK_FORM: 400,
  ERR_STACK_LIMIT: 503,
  ERR_STACK_UNKNOWN: 404,
};

/** Errors of the master's. */
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
  ['ERR_MASTER_STOPPED', 503],
  ['ERR_NODEGROUP_UNKNOWN', 400],
  ['ERR_STORE_FULL', 503],
  ['ERR_STORE_UNAVAILABLE', 503],
  ['ERR_WORK_LIMIT', 400],
]);

const retryAfterSeconds = 5;

/** An error as the bridge's clients have it. */
interface HttpProblem {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/** Errors with a code of ours are for the caller; of others only that it failed is told. */
export function httpProblemOf(error: unknown): HttpProblem {
  if (error instanceof BridgeError) {
    return { status: statusOfBridgeError[error.code], code: error.code, message: error.message };
  }
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    const status = statusOfMasterError.get(error.code);
    if (status !== undefined) return { status, code: error.code, message: error.message };
  }
  const status = statusOfServerError(error);
  if (status >= 400 && status < 500) {
    return { status, code: 'ERR_ARGS', message: 'the request cannot be read' };
  }
  if (status === 503) {
    return { status, code: 'ERR_COMMAND_BUSY', message: 'the server is busy; try again' };
  }
  return { status: 500, code: 'ERR_INTERNAL', message: 'the bridge failed; see its log' };
}

/** Errors of the HTTP server know theirs. */
function statusOfServerError(error: unknown): number {
  if (!(error instanceof Error)) return 500;
  if ('statusCode' in error) return Number(error.statusCode);
  return 'status' in error ? Number(error.status) : 500;
}

const listed: ReadonlySet<string> = new Set(['ERR_COMMAND_DENIED', 'ERR_COMMAND_UNKNOWN']);

const described: ReadonlySet<string> = new Set(['ERR_COMMAND_PARAMETERS', 'ERR_PLAN_GROUPS']);

/** Where a client finds what would not have been refused; '' where nothing says more. */
function hintOf(code: string, url: string): string {
  const [, collection, name] = /^(.*?\/(?:commands|plans))(?:\/([^/?]+))?/.exec(url) ?? [];
  if (collection === undefined) return '';
  if (listed.has(code)) return `; GET ${collection} lists what you may call`;
  if (!described.has(code) || name === undefined) return '';
  return `; GET ${collection}/${name} describes it`;
}

/** @param url - of the request; '' where no hint is wanted */
export function sendBridgeError(error: unknown, reply: FastifyReply, url = ''): FastifyReply {
  const { status, code, message: problem } = httpProblemOf(error);
  const message = `${problem}${hintOf(code, url)}`;
  if (code === 'ERR_INTERNAL') reply.log.error({ err: error }, 'bridge request failed');
  if (status === 503) reply.header('retry-after', retryAfterSeconds);
  // What is left of its body is not read.
  if (code === 'ERR_HTTP_BUSY') reply.header('connection', 'close');
  return reply.code(status).send({ error: { code, message } });
}

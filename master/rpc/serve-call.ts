/** Calls of the interface over HTTP, whatever they came in by: see server.ts for the form. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { WireValue } from '../../minion-protocol/index.ts';
import {
  JsonError,
  type JsonOptions,
  readJsonInSteps,
  type StepScheduler,
  writeJson,
} from '../../runtime/index.ts';
import type { MasterApi } from '../api.ts';
import type { AuditRequester } from '../audit/requester.ts';
import { MasterError } from '../errors.ts';
import { markedJson, toJson } from './json-values.ts';
import type { RpcMethod } from './methods.ts';

/** A call that was found. */
export interface ServedCall {
  readonly name: string;
  readonly method: RpcMethod;
  readonly api: MasterApi;
  readonly response: ServerResponse;
  readonly log: Logger;
}

/** What came with it. */
interface CallInput {
  readonly parameters: unknown;
  readonly signal: AbortSignal;
  /** Who asks, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester;
}

/** What a caller gets for an error: never a stack. */
interface ErrorBody {
  readonly code: string;
  readonly message: string;
}

/** Codes that say that somebody may not. */
const refusals = /^ERR_(?:DENIED|EAUTH.*)$/;

/** Does a call and answers it, whatever becomes of it; never fails. */
export async function serveCall(call: ServedCall & CallInput): Promise<void> {
  const { name, method, parameters } = call;
  try {
    const complaint = method.complaint(parameters);
    if (complaint !== undefined) throw new MasterError('ERR_ARGS', `${name}: ${complaint}`);
    await answer(call);
  } catch (error) {
    failCall(call, error);
  }
}

/** Answers a call that failed. */
export function failCall(
  { name, response, log }: Pick<ServedCall, 'name' | 'response' | 'log'>,
  error: unknown,
): void {
  const body = describe(error);
  if (body === undefined) log.error({ cmd: name, err: error }, 'request of the interface failed');
  const shown = body ?? { code: 'ERR_INTERNAL', message: 'the master failed; see its log' };
  if (response.headersSent) response.end(`${JSON.stringify({ error: shown })}\n`);
  else sendError(response, statusOf(body, error), shown);
}

/** Answers a call of a method that is none. */
export function refuseMethod(response: ServerResponse, name: string): void {
  const message = `no method ${JSON.stringify(name)}`;
  sendError(response, 404, { code: 'ERR_RPC_UNKNOWN_METHOD', message });
}

function statusOf(body: ErrorBody | undefined, error: unknown): number {
  if (body === undefined) return 500;
  // Errors of HTTP know theirs.
  if (error instanceof Error && 'status' in error) return Number(error.status);
  return refusals.test(body.code) ? 401 : 400;
}

async function answer({
  method,
  api,
  parameters,
  response,
  signal,
  by,
}: ServedCall & CallInput): Promise<void> {
  // Before the head goes out: who reads it knows that what happens from now on is in the stream.
  const result = await method.invoke(api, parameters, signal, by);
  if (!isStream(result)) {
    response.setHeader('content-type', 'application/json');
    response.end(writeJson({ result: asJson(result) }));
    return;
  }
  response.setHeader('content-type', 'application/x-ndjson');
  // A stream may be silent for long: the reader must know at once that it holds.
  response.flushHeaders();
  for await (const item of result) {
    if (!response.write(`${writeJson({ item: asJson(item) })}\n`)) {
      await drained(response, signal);
    }
    if (signal.aborted) break;
  }
  response.end('{"end":true}\n');
}

function isStream(result: unknown): result is AsyncIterable<unknown> {
  return typeof result === 'object' && result !== null && Symbol.asyncIterator in result;
}

/** Everything in the interface is made of Salt's values; members that are not set are left out. */
function asJson(value: unknown): unknown {
  return toJson((value ?? null) as WireValue);
}

/** Waits until the reader has taken what waits for it, or has gone. */
async function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  try {
    await once(response, 'drain', { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * The parameters of a call as its body has them, read in steps.
 * @throws MasterError ERR_ARGS
 */
export async function parseParameters(
  body: Uint8Array,
  scheduler: Pick<StepScheduler, 'run'>,
  limits: Pick<JsonOptions, 'maxValues' | 'maxDepth'> = {},
): Promise<WireValue> {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
  if (text === '') return {};
  try {
    return await scheduler.run(readJsonInSteps(text, { ...markedJson, ...limits }));
  } catch (cause) {
    const why = cause instanceof JsonError ? cause.message : 'a mark that holds something else';
    throw new MasterError('ERR_ARGS', `expected the parameters as JSON: ${why}`, { cause });
  }
}

/** Errors with a code of ours are for the caller; anything else is a fault of this program. */
function describe(error: unknown): ErrorBody | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  const { code, message } = error;
  return typeof code === 'string' && code.startsWith('ERR_') ? { code, message } : undefined;
}

function sendError(response: ServerResponse, status: number, error: ErrorBody): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error }));
}

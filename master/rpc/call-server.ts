/** Serves calls of the interface, over the local socket or HTTPS. */

import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import type { WireValue } from '#minion-protocol';
import {
  isSmallJson,
  JsonError,
  type JsonOptions,
  readJsonInSteps,
  type SendPool,
  type SendQueue,
  type StepScheduler,
  textInSteps,
  writeJson,
  writeJsonInSteps,
} from '#runtime';
import {
  type AuditRequester,
  type MasterApi,
  MasterError,
  type RpcMethod,
  type RpcTable,
} from '../api/index.ts';
import { markedForm, markedJson, toJson } from '../arguments/index.ts';
import type { CallGate } from '../context/index.ts';
import { missedBySlowReader } from '../events/index.ts';
import { namedMethods } from './methods.ts';

/** What a caller gets for an error: never a stack. */
interface ErrorBody {
  readonly code: string;
  readonly message: string;
}

/** Codes that say that somebody may not. */
const refusals = /^ERR_(?:DENIED|EAUTH.*)$/;

/** Bytes that wait for a reader before a stream that loses nothing waits for it. */
const maxUnreadBytes = 65_536;

export interface CallServerOptions {
  readonly methods: ReadonlyMap<string, RpcMethod>;
  /** Methods besides, in rooms as tables have them. */
  readonly more?: readonly RpcTable[];
  readonly api: MasterApi;
  readonly log: Logger;
  /** Counts the calls that begin something. Default: they are not counted. */
  readonly calls?: Pick<CallGate, 'enter'> | undefined;
  /** Reads and writes what is large. */
  readonly steps: Pick<StepScheduler, 'run'>;
  /** Outgoing data of all streams. */
  readonly sendPool: SendPool;
}

/** Input of a call, as far as its caller may give it. */
export interface CallInput {
  readonly parameters: unknown;
  /** Who asks, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester | undefined;
  /** Called once at the end of the call. */
  readonly leave?: (() => void) | undefined;
}

/** A call before its input is read. */
interface Call {
  readonly name: string;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

/** Finds methods by their names, calls them, and writes their results. */
export class CallServer {
  readonly #options: CallServerOptions;
  readonly #methods: ReadonlyMap<string, RpcMethod>;

  constructor(options: CallServerOptions) {
    this.#options = options;
    const more = (options.more ?? []).flatMap((table) => [...namedMethods(table)]);
    this.#methods = new Map([...options.methods, ...more]);
  }

  /**
   * Answers a call. Never fails.
   * @param admit - reads the input; an error of it is the answer
   */
  async serve(call: Call, admit: (method: RpcMethod) => Promise<CallInput>): Promise<void> {
    const { name, response } = call;
    const method = this.#methods.get(name);
    if (method === undefined) {
      const message = `no method ${JSON.stringify(name)}`;
      sendError(response, 404, { code: 'ERR_RPC_UNKNOWN_METHOD', message });
      return;
    }
    let input: CallInput | undefined;
    let leave: (() => void) | undefined;
    try {
      input = await admit(method);
      const complaint = method.complaint(input.parameters);
      if (complaint !== undefined) throw new MasterError('ERR_ARGS', `${name}: ${complaint}`);
      leave = beginsSomething(method) ? this.#options.calls?.enter() : undefined;
      const { parameters, by } = input;
      // Before the head goes out: who reads it knows that what happens from now on is in the stream.
      const result = await method.invoke(this.#options.api, parameters, call.signal, by);
      if (isStream(result)) await this.#writeStream(method, call, result);
      else await this.#writeResult(response, result);
    } catch (error) {
      const shown = this.#shownError(name, error);
      if (response.headersSent) response.end(lineOf({ error: shown }));
      else sendError(response, statusOf(shown, error), shown);
    } finally {
      leave?.();
      input?.leave?.();
    }
  }

  /**
   * The parameters of a call as its body has them, read in steps.
   * @throws MasterError ERR_ARGS
   */
  async parseParameters(
    body: readonly Uint8Array[],
    limits: Pick<JsonOptions, 'maxValues' | 'maxDepth'> = {},
  ): Promise<WireValue> {
    if (body.length === 0) return {};
    const { steps } = this.#options;
    const text = await steps.run(textInSteps(body));
    if (text === undefined) throw new MasterError('ERR_ARGS', 'expected the parameters in UTF-8');
    try {
      return await steps.run(readJsonInSteps(text, { ...markedJson, ...limits }));
    } catch (cause) {
      const why = cause instanceof JsonError ? cause.message : 'a mark that holds something else';
      throw new MasterError('ERR_ARGS', `expected the parameters as JSON: ${why}`, { cause });
    }
  }

  /** Returns what the caller gets for an error. A fault of this program is written to the log. */
  #shownError(name: string, error: unknown): ErrorBody {
    const body = describe(error);
    if (body !== undefined) return body;
    this.#options.log.error({ cmd: name, err: error }, 'request of the interface failed');
    return { code: 'ERR_INTERNAL', message: 'the master failed; see its log' };
  }

  async #writeResult(response: ServerResponse, result: unknown): Promise<void> {
    response.setHeader('content-type', 'application/json');
    if (isSmallJson(result)) {
      response.end(writeJson({ result: asJson(result) }));
      return;
    }
    const chunks: Buffer[] = [];
    const take = (piece: string): unknown => chunks.push(Buffer.from(piece));
    await this.#options.steps.run(writeJsonInSteps({ result }, markedForm, take));
    await pipeline(Readable.from(chunks), response);
  }

  async #writeStream(
    method: RpcMethod,
    { name, response, signal }: Call,
    items: AsyncIterable<unknown>,
  ): Promise<void> {
    response.setHeader('content-type', 'application/x-ndjson');
    // A stream may be silent for long: the reader must know at once that it holds.
    response.flushHeaders();
    const queue = this.#options.sendPool.open(response, slowReaderLines);
    try {
      await writeItems(queue, items, method, signal);
      queue.push(signal.aborted ? closedLine : endLine);
    } catch (error) {
      queue.push(lineOf({ error: this.#shownError(name, error) }));
    }
    queue.end();
  }
}

/** Whether a member that is drained refuses it. */
function beginsSomething({ access, isIdempotent, isLive }: RpcMethod): boolean {
  return !isIdempotent && !isLive && access !== 'host' && access !== 'anybody';
}

function statusOf(body: ErrorBody, error: unknown): number {
  if (body.code === 'ERR_INTERNAL') return 500;
  // Errors of HTTP know theirs.
  if (error instanceof Error && 'status' in error) return Number(error.status);
  return refusals.test(body.code) ? 401 : 400;
}

/** Events are not held up for a reader, who is ended when too much waits; everything else is. */
async function writeItems(
  queue: SendQueue,
  items: AsyncIterable<unknown>,
  { isLive = false }: RpcMethod,
  signal: AbortSignal,
): Promise<void> {
  for await (const item of items) {
    if (!queue.push(isLive ? sharedLine(item) : itemLine(item)) || signal.aborted) return;
    if (!isLive && queue.waitingBytes > maxUnreadBytes) await queue.flushed();
  }
}

const endLine = Buffer.from('{"end":true}\n');
/** The master is being closed: what was streamed may go on with the next one. */
const closedLine = Buffer.from('{"end":true,"closed":true}\n');

/** What a reader of events is told that is ended because it is too slow. */
function slowReaderLines(): Buffer[] {
  const code = 'ERR_READER_DROPPED';
  const message = 'more waited for the reader than may; it was dropped';
  return [itemLine(missedBySlowReader()), lineOf({ error: { code, message } })];
}

/** Lines of events, which are the same for all who read them. */
const lines = new WeakMap<object, Buffer>();

function sharedLine(item: unknown): Buffer {
  if (typeof item !== 'object' || item === null) return itemLine(item);
  const line = lines.get(item) ?? itemLine(item);
  lines.set(item, line);
  return line;
}

function itemLine(item: unknown): Buffer {
  return lineOf({ item: asJson(item) });
}

function lineOf(value: object): Buffer {
  return Buffer.from(`${writeJson(value)}\n`);
}

function isStream(result: unknown): result is AsyncIterable<unknown> {
  return typeof result === 'object' && result !== null && Symbol.asyncIterator in result;
}

/** Everything in the interface is made of Salt's values; members that are not set are left out. */
function asJson(value: unknown): unknown {
  return toJson((value ?? null) as WireValue);
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

import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { isWireMap, type WireValue } from '#minion-protocol';
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

/** Error as sent to clients. It never contains a stack trace. */
interface ErrorBody {
  readonly code: string;
  readonly message: string;
}

/** Matches error codes that mean missing permission or authentication. */
const refusals = /^ERR_(?:DENIED|EAUTH.*)$/;

/** Maximum number of parameters of a call. The methods have at most twenty. */
const maxParameters = 100;

/**
 * Maximum number of unsent bytes of a stream. Above it, the server waits for the reader before it
 * writes more items. It does not apply to live streams.
 */
const maxUnreadBytes = 65_536;

export interface CallServerOptions {
  readonly methods: ReadonlyMap<string, RpcMethod>;
  /** Additional methods, as nested tables. */
  readonly more?: readonly RpcTable[];
  readonly api: MasterApi;
  readonly log: Logger;
  /**
   * Counter for calls that start a job or another operation. While the master prepares for a
   * restart, it rejects such calls. Default: calls are not counted.
   */
  readonly calls?: Pick<CallGate, 'enter'> | undefined;
  /** Scheduler that splits the parsing and writing of large values into steps. */
  readonly steps: Pick<StepScheduler, 'run'>;
  /** Pool that limits the outgoing data of all streams. */
  readonly sendPool: SendPool;
  /**
   * Time after which a connection ends if its client receives nothing of a result, in milliseconds.
   * Default: no such limit.
   */
  readonly stallMs?: number;
}

/** Input of a call, as its client supplied it. */
export interface CallInput {
  readonly parameters: unknown;
  /** Requester of the call, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester | undefined;
  /**
   * Returns a function that counts bytes of a large result towards the limit of the caller. The
   * function throws an error if the limit is exceeded. The owner of the limit releases the bytes in
   * {@link leave}. Default: bytes are not counted.
   */
  readonly hold?: (() => Promise<(bytes: number) => void>) | undefined;
  /** Called once when the call ends. */
  readonly leave?: (() => void) | undefined;
}

/** Call whose parameters have not been read yet. */
interface Call {
  readonly name: string;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

/**
 * Serves calls of the master's interface over the local socket or HTTPS. It finds the method, calls
 * it, and writes the result.
 */
export class CallServer {
  readonly #options: CallServerOptions;
  readonly #methods: ReadonlyMap<string, RpcMethod>;

  constructor(options: CallServerOptions) {
    this.#options = options;
    const more = (options.more ?? []).flatMap((table) => [...namedMethods(table)]);
    this.#methods = new Map([...options.methods, ...more]);
  }

  /**
   * Answers a call. The promise never rejects.
   * @param admit - reads the input of the call. To reject the call, it throws an error, which
   * becomes the response
   */
  async serve(call: Call, admit: (method: RpcMethod) => Promise<CallInput>): Promise<void> {
    const { name, response } = call;
    const method = this.#methods.get(name);
    if (method === undefined) {
      const message = `unknown method ${JSON.stringify(name)}`;
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
      // The method is invoked before the response head is sent. So a client that has received the
      // head will receive all later events.
      const result = await method.invoke(this.#options.api, parameters, call.signal, by);
      if (isStream(result)) await this.#writeStream(method, call, result);
      else await this.#writeResult(response, result, input.hold);
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
   * Parses the parameters in the body of a call. Large bodies are parsed in steps, so that other
   * work can run in between. An empty body means no parameters.
   * @throws MasterError ERR_ARGS
   */
  async parseParameters(
    body: readonly Uint8Array[],
    limits: Pick<JsonOptions, 'maxValues' | 'maxDepth'> = {},
  ): Promise<WireValue> {
    if (body.length === 0) return {};
    const { steps } = this.#options;
    const text = await steps.run(textInSteps(body));
    if (text === undefined) throw new MasterError('ERR_ARGS', 'the parameters are not valid UTF-8');
    let parameters: WireValue;
    try {
      parameters = await steps.run(readJsonInSteps(text, { ...markedJson, ...limits }));
    } catch (cause) {
      const why =
        cause instanceof JsonError
          ? cause.message
          : 'a key that marks a type, such as `$int`, has an invalid value';
      throw new MasterError('ERR_ARGS', `the parameters are not valid JSON: ${why}`, { cause });
    }
    // The validator would report each unknown parameter.
    if (isWireMap(parameters) && Object.keys(parameters).length > maxParameters) {
      throw new MasterError(
        'ERR_ARGS',
        `the call has too many parameters; the maximum is ${maxParameters}`,
      );
    }
    return parameters;
  }

  /**
   * Converts an error to the form for the client. An error without a saltbridge error code is a
   * defect of this program: it is logged, and the client gets `ERR_INTERNAL`.
   */
  #shownError(name: string, error: unknown): ErrorBody {
    const body = describe(error);
    if (body !== undefined) return body;
    this.#options.log.error({ cmd: name, err: error }, 'call failed');
    return { code: 'ERR_INTERNAL', message: 'internal error of the master; see its log' };
  }

  async #writeResult(
    response: ServerResponse,
    result: unknown,
    hold: CallInput['hold'],
  ): Promise<void> {
    const { steps, stallMs = 0 } = this.#options;
    response.setHeader('content-type', 'application/json');
    if (isSmallJson(result)) {
      response.setTimeout(stallMs);
      response.end(writeJson({ result: asJson(result) }));
      return;
    }
    const count = await hold?.();
    const chunks: Buffer[] = [];
    const take = (piece: string): void => {
      const chunk = Buffer.from(piece);
      count?.(chunk.byteLength);
      chunks.push(chunk);
    };
    await steps.run(writeJsonInSteps({ result }, markedForm, take));
    response.setTimeout(stallMs);
    await pipeline(Readable.from(chunks), response);
  }

  async #writeStream(
    method: RpcMethod,
    { name, response, signal }: Call,
    items: AsyncIterable<unknown>,
  ): Promise<void> {
    response.setHeader('content-type', 'application/x-ndjson');
    // A stream may have no items for a long time, but the client must know immediately that it was
    // accepted. So the head is sent now.
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

/**
 * Whether a method starts a job or another operation. A cluster member that prepares for a restart
 * rejects such methods.
 */
function beginsSomething({ access, isIdempotent, isLive }: RpcMethod): boolean {
  return !isIdempotent && !isLive && access !== 'host' && access !== 'anybody';
}

function statusOf(body: ErrorBody, error: unknown): number {
  if (body.code === 'ERR_INTERNAL') return 500;
  // Errors of HTTP contain their status.
  if (error instanceof Error && 'status' in error) return Number(error.status);
  return refusals.test(body.code) ? 401 : 400;
}

/**
 * Writes the items of a stream to its reader. If the reader is too slow, a live stream disconnects
 * the reader. Any other stream waits for the reader.
 */
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
/**
 * Last line of a stream when the master closes. The reader may continue the stream with the next
 * master process.
 */
const closedLine = Buffer.from('{"end":true,"closed":true}\n');

/**
 * Returns the last lines of a live stream whose reader was too slow: a notice about missed events,
 * and an error.
 */
function slowReaderLines(): Buffer[] {
  const code = 'ERR_READER_DROPPED';
  const message = 'the reader was too slow: its pending events exceeded the limit; subscribe again';
  return [itemLine(missedBySlowReader()), lineOf({ error: { code, message } })];
}

/**
 * Encoded lines by the event that they contain, so that each event is encoded only once for all
 * readers.
 */
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

/**
 * Converts a value to JSON in which keys such as `$int` mark types that JSON lacks. Properties that
 * are `undefined` are omitted.
 */
function asJson(value: unknown): unknown {
  return toJson((value ?? null) as WireValue);
}

/**
 * Returns the code and message of an error that has a saltbridge error code. `undefined` for any
 * other error, which is a defect.
 */
function describe(error: unknown): ErrorBody | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  const { code, message } = error;
  return typeof code === 'string' && code.startsWith('ERR_') ? { code, message } : undefined;
}

function sendError(response: ServerResponse, status: number, error: ErrorBody): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error }));
}

/**
 * The local socket: the interface as HTTP over a Unix socket (0600, in a 0700 directory).
 * `POST /rpc/<method>` takes the parameters as JSON. A single value is returned as `{"result": …}`, a
 * stream as lines of JSON: `{"item": …}` each, then `{"end": true}` or `{"error": …}`.
 */

import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, readdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { isWireMap, type WireValue } from '#minion-protocol';
import {
  isSmallJson,
  JsonError,
  type JsonOptions,
  listenPrivately,
  makeDirectory,
  processUser,
  readJsonInSteps,
  SendPool,
  type SendQueue,
  StepScheduler,
  textInSteps,
  writeJson,
  writeJsonInSteps,
} from '#runtime';
import { type AuditRequester, type MasterApi, MasterError, type RpcMethod } from '../api/index.ts';
import { markedForm, markedJson, toJson } from '../arguments/index.ts';
import type { CallGate } from '../context/index.ts';
import { missedBySlowReader } from '../events/index.ts';
import { methodsWithUser } from './methods.ts';

// Serving one call, over the local socket or HTTPS.

/** A call that was found. */
export interface ServedCall {
  readonly name: string;
  readonly method: RpcMethod;
  readonly api: MasterApi;
  readonly response: ServerResponse;
  readonly log: Logger;
  /** Through which it begins. Default: it is not counted. */
  readonly calls?: Pick<CallGate, 'enter'> | undefined;
  /** Writes what is large. */
  readonly steps: Pick<StepScheduler, 'run'>;
  /** What waits for the readers of streams. */
  readonly sendPool: SendPool;
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

/** Bytes that wait for a reader before a stream that loses nothing waits for it. */
const maxUnreadBytes = 65_536;

/** Does a call and answers it, whatever becomes of it; never fails. */
export async function serveCall(call: ServedCall & CallInput): Promise<void> {
  const { name, method, parameters } = call;
  try {
    const complaint = method.complaint(parameters);
    if (complaint !== undefined) throw new MasterError('ERR_ARGS', `${name}: ${complaint}`);
    const leave = beginsSomething(method) ? call.calls?.enter() : undefined;
    try {
      await answer(call);
    } finally {
      leave?.();
    }
  } catch (error) {
    failCall(call, error);
  }
}

/** Whether a member that is drained refuses it. */
function beginsSomething({ access, isIdempotent, isLive }: RpcMethod): boolean {
  return !isIdempotent && !isLive && access !== 'host' && access !== 'anybody';
}

/** Answers a call that failed. */
export function failCall(
  { name, response, log }: Pick<ServedCall, 'name' | 'response' | 'log'>,
  error: unknown,
): void {
  const shown = shownError({ name, log }, error);
  if (response.headersSent) response.end(lineOf({ error: shown }));
  else sendError(response, statusOf(shown, error), shown);
}

/** What the caller is told; a fault of this program is told to the log. */
function shownError({ name, log }: Pick<ServedCall, 'name' | 'log'>, error: unknown): ErrorBody {
  const body = describe(error);
  if (body !== undefined) return body;
  log.error({ cmd: name, err: error }, 'request of the interface failed');
  return { code: 'ERR_INTERNAL', message: 'the master failed; see its log' };
}

/** Answers a call of a method that is none. */
export function refuseMethod(response: ServerResponse, name: string): void {
  const message = `no method ${JSON.stringify(name)}`;
  sendError(response, 404, { code: 'ERR_RPC_UNKNOWN_METHOD', message });
}

function statusOf(body: ErrorBody, error: unknown): number {
  if (body.code === 'ERR_INTERNAL') return 500;
  // Errors of HTTP know theirs.
  if (error instanceof Error && 'status' in error) return Number(error.status);
  return refusals.test(body.code) ? 401 : 400;
}

async function answer(call: ServedCall & CallInput): Promise<void> {
  const { method, api, parameters, response, signal, by, sendPool } = call;
  // Before the head goes out: who reads it knows that what happens from now on is in the stream.
  const result = await method.invoke(api, parameters, signal, by);
  if (!isStream(result)) {
    response.setHeader('content-type', 'application/json');
    await writeResult(result, call);
    return;
  }
  response.setHeader('content-type', 'application/x-ndjson');
  // A stream may be silent for long: the reader must know at once that it holds.
  response.flushHeaders();
  const queue = sendPool.open(response, slowReaderLines);
  try {
    await writeItems(queue, result, call);
    queue.push(signal.aborted ? closedLine : endLine);
  } catch (error) {
    queue.push(lineOf({ error: shownError(call, error) }));
  }
  queue.end();
}

async function writeResult(result: unknown, { response, steps }: ServedCall): Promise<void> {
  if (isSmallJson(result)) {
    response.end(writeJson({ result: asJson(result) }));
    return;
  }
  const chunks: Buffer[] = [];
  const take = (piece: string): unknown => chunks.push(Buffer.from(piece));
  await steps.run(writeJsonInSteps({ result }, markedForm, take));
  await pipeline(Readable.from(chunks), response);
}

/** Events are not held up for a reader, who is ended when too much waits; everything else is. */
async function writeItems(
  queue: SendQueue,
  items: AsyncIterable<unknown>,
  { method: { isLive = false }, signal }: ServedCall & CallInput,
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

/**
 * The parameters of a call as its body has them, read in steps.
 * @throws MasterError ERR_ARGS
 */
export async function parseParameters(
  body: readonly Uint8Array[],
  scheduler: Pick<StepScheduler, 'run'>,
  limits: Pick<JsonOptions, 'maxValues' | 'maxDepth'> = {},
): Promise<WireValue> {
  if (body.length === 0) return {};
  const text = await scheduler.run(textInSteps(body));
  if (text === undefined) throw new MasterError('ERR_ARGS', 'expected the parameters in UTF-8');
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

const maxBodyBytes = 64 * 1024 * 1024;

/** Bytes that may wait for the readers of all streams. */
const maxStreamBytes = 256 * 1024 * 1024;

/** Serves one master's interface on its local socket. */
export class RpcServer {
  readonly #api: MasterApi;
  readonly #log: Logger;
  readonly #methods: ReadonlyMap<string, RpcMethod>;
  readonly #sendPool: SendPool;
  readonly #server: Server;
  readonly #scheduler = new StepScheduler();
  readonly #calls = new Set<AbortController>();
  readonly #gate: Pick<CallGate, 'enter'> | undefined;
  #socketPath: string | undefined;

  /**
   * @param methods - by their names
   * @param maxEventBytes - the largest event: `max_event_size`
   * @param gate - through which calls begin
   */
  constructor(
    api: MasterApi,
    log: Logger,
    methods: ReadonlyMap<string, RpcMethod>,
    maxEventBytes = 1_048_576,
    gate?: Pick<CallGate, 'enter'>,
  ) {
    this.#api = api;
    this.#log = log;
    this.#gate = gate;
    this.#methods = methods;
    this.#sendPool = new SendPool({ messageBytes: maxEventBytes, totalBytes: maxStreamBytes });
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        this.#log.error({ err: error }, 'local request failed');
        response.destroy();
      });
    });
  }

  /**
   * Binds the socket. One left behind by a process that is gone is replaced.
   * @throws MasterError ERR_SOCKET when another master listens on it
   */
  async listen(socketPath: string): Promise<void> {
    await makeDirectory(path.dirname(socketPath), 0o700);
    if (await isListening(socketPath)) {
      throw new MasterError('ERR_SOCKET', `${socketPath}: another master listens on this socket`);
    }
    try {
      await removeCallerProofs(socketPath);
      await listenPrivately(this.#server, socketPath);
      this.#socketPath = socketPath;
    } catch (cause) {
      throw new MasterError('ERR_SOCKET', `${socketPath}: cannot listen`, { cause });
    }
  }

  /** Ends running streams; whoever reads them is told that the master is being closed. */
  endStreams(): void {
    for (const call of this.#calls) call.abort();
  }

  /** Ends running streams, lets short calls finish (at most `graceMs`) and closes. */
  async close(graceMs = 5000): Promise<void> {
    this.endStreams();
    if (this.#socketPath !== undefined) await rm(this.#socketPath, { force: true });
    this.#socketPath = undefined;
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    this.#server.closeIdleConnections();
    // A caller that never ends its request, or never reads its answer, holds nobody.
    const grace = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await closed;
    clearTimeout(grace);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = request.url?.startsWith('/rpc/') ? request.url.slice('/rpc/'.length) : '';
    const found = request.method === 'POST' ? this.#methods.get(name) : undefined;
    if (found === undefined) {
      refuseMethod(response, name);
      return;
    }
    const call = new AbortController();
    this.#calls.add(call);
    response.on('close', () => {
      if (!response.writableFinished) call.abort();
    });
    const shared = {
      api: this.#api,
      calls: this.#gate,
      log: this.#log,
      steps: this.#scheduler,
      sendPool: this.#sendPool,
    };
    const served = { name, method: found, response, ...shared };
    try {
      const given = await parseParameters(await readBody(request), this.#scheduler);
      const parameters = await this.#withUser(name, given, request);
      await serveCall({ ...served, parameters, signal: call.signal });
    } catch (error) {
      failCall(served, error);
    } finally {
      this.#calls.delete(call);
    }
  }

  /** What a call starts is the caller's account's, unless it is a user's with a token. */
  async #withUser(
    name: string,
    parameters: WireValue,
    { headers }: IncomingMessage,
  ): Promise<WireValue> {
    const socketPath = this.#socketPath;
    if (!methodsWithUser.has(name) || !isWireMap(parameters)) return parameters;
    if (socketPath === undefined || parameters.token !== undefined) return parameters;
    const account = await accountOfCaller(socketPath, headers[callerHeader]);
    return { ...parameters, user: userOfCall(parameters.user, account) };
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  // Known in advance from our own client; refused before it is read, the caller is still there.
  if (Number(request.headers['content-length']) > maxBodyBytes) throw bodyTooLarge();
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw bodyTooLarge();
    chunks.push(chunk);
  }
  return chunks;
}

function bodyTooLarge(): MasterError {
  return new MasterError('ERR_ARGS', `the parameters are larger than ${maxBodyBytes} bytes`);
}

function isListening(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(socketPath);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
}

// Which account calls over the local socket. Node.js has no peer credentials: the caller makes a file in
// the socket's directory, whose owner the master reads. The file holds the digest of a secret that only
// the request carries, so that nobody else can refer to it; it is good for one call.

/** The header of a request that has the secret. */
export const callerHeader = 'x-saltbridge-caller';

const prefix = '.caller-';
const secretForm = /^[0-9a-f]{64}$/;

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** A caller's proof, before the request that refers to it. */
export interface CallerProof {
  /** For {@link callerHeader}. */
  readonly secret: string;
  /** Removes the file where the master has not done so. */
  remove(): Promise<void>;
}

/**
 * Makes a proof; `undefined` where none is needed, because {@link accountOfCaller} takes a call without
 * one for the socket's owner, and where no file can be made: the call goes on without.
 */
export async function createCallerProof(socketPath: string): Promise<CallerProof | undefined> {
  const owner = await lstat(socketPath).then(
    ({ uid }) => uid,
    () => undefined,
  );
  if (owner !== undefined && owner === process.geteuid?.()) return undefined;
  const secret = randomBytes(32).toString('hex');
  const digest = digestOf(secret);
  const file = path.join(path.dirname(socketPath), `${prefix}${digest}`);
  const remove = (): Promise<void> => rm(file, { force: true }).catch(() => {});
  try {
    const handle = await open(file, 'wx', 0o644);
    try {
      // Whatever the umask: the master may be another account, and the directory is closed to others.
      await handle.chmod(0o644);
      await handle.writeFile(digest);
    } finally {
      await handle.close();
    }
    return { secret, remove };
  } catch {
    await remove();
    return undefined;
  }
}

/**
 * The account that made the proof, or without one, the account that owns the socket.
 * @param secret - what the request has in {@link callerHeader}
 */
async function accountOfCaller(
  socketPath: string,
  secret: string | readonly string[] | undefined,
): Promise<string> {
  const proven =
    typeof secret === 'string' && secretForm.test(secret)
      ? await ownerOfProof(path.dirname(socketPath), digestOf(secret)).catch(() => undefined)
      : undefined;
  return accountName(proven ?? (await lstat(socketPath)).uid);
}

async function ownerOfProof(directory: string, digest: string): Promise<number | undefined> {
  const file = path.join(directory, `${prefix}${digest}`);
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const { uid, size, nlink } = await handle.stat();
    await rm(file);
    // A link could give a file of somebody else's this name.
    if (nlink !== 1 || size !== digest.length) return undefined;
    return (await handle.readFile('utf8')) === digest ? uid : undefined;
  } finally {
    await handle.close();
  }
}

/** Nobody but root and the master's own account can open the socket; Node.js knows no other names. */
function accountName(uid: number): string {
  if (uid === 0) return 'root';
  const own = uid === process.getuid?.() ? processUser() : null;
  return own ?? `uid:${uid}`;
}

/** Removes what callers left that died before their request arrived. */
async function removeCallerProofs(socketPath: string): Promise<void> {
  const directory = path.dirname(socketPath);
  const names = (await readdir(directory)).filter((name) => name.startsWith(prefix));
  await Promise.all(names.map((name) => rm(path.join(directory, name), { force: true })));
}

/** As in Salt, whoever has the rights of the socket may say who came by sudo, and nothing else. */
function userOfCall(given: unknown, account: string): string {
  return typeof given === 'string' && given.startsWith('sudo_') ? given : account;
}

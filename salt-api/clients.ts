/** The clients of Salt's API (`local`, `runner`, `wheel` …): a closed table [THREATS A-06]. */

import {
  type FunctionCall,
  type JobUpdate,
  joinKeywords,
  MasterError,
  type RunRequest,
  returnerOf,
  type UserApi,
} from '#master';
import { formatEventStamp, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { longestTimerMs } from '#runtime';
import type { BodyReader } from './body.ts';
import type { ApiContext, Caller } from './context.ts';
import { SaltApiError } from './errors.ts';
import {
  argumentsOf,
  batchForm,
  credentialFields,
  type LocalForm,
  type Lowstate,
  localForm,
  masterForm,
  omitFields,
  secondsOf,
  subsetForm,
} from './lowstate.ts';

// The clients `runner`, `runner_async`, `wheel` and `wheel_async`.

interface FunctionClientDeps {
  readonly user: UserApi;
  /** Name of whoever asks. */
  readonly name: string;
  /** Seconds that a runner has: `rest_timeout`. */
  readonly timeout: number;
  readonly bodies: Pick<BodyReader, 'readWords'>;
  /** For calls that were not begun. */
  readonly nextJid: () => string;
}

const ownFields = ['client', 'fun', 'arg', 'kwarg', 'full_return', ...credentialFields];

/** The runner's value; with `full_return` all of its event. */
async function runRunner(
  { user, name, timeout, bodies }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireValue> {
  const call = await toCall(low, bodies);
  try {
    const result = await withTimeout(secondsOf(low, 'timeout') ?? timeout, user.runners.run(call));
    if (low.full_return !== true) return result.return;
    const { jid, fun, success } = result;
    const event = {
      fun,
      jid,
      user: name,
      fun_args: functionArguments(call),
      _stamp: formatEventStamp(new Date()),
    };
    return { tag: `salt/run/${jid}/ret`, data: { ...event, return: result.return, success } };
  } catch (error) {
    return answerFor(error);
  }
}

/** `{tag, jid}` of the call that goes on. */
async function startRunner({ user, bodies }: FunctionClientDeps, low: Lowstate): Promise<WireMap> {
  const { tag, jid } = await user.runners.start(await toCall(low, bodies));
  return { tag, jid };
}

/** Always all of the event: what went wrong is an answer, too. */
async function runWheel(parts: FunctionClientDeps, low: Lowstate): Promise<WireMap> {
  const call = await toCall(low, parts.bodies);
  try {
    const { jid, return: value, success } = await parts.user.wheel.run(call);
    return wheelEvent(parts, call, { jid, return: value, success });
  } catch (error) {
    if (!(error instanceof MasterError) || !isAboutCall(error)) throw error;
    const text = `Exception occurred in wheel ${call.fun}: ${error.message}`;
    return wheelEvent(parts, call, { jid: parts.nextJid(), return: text, success: false });
  }
}

/** `{tag, jid}` of the call that goes on. */
async function startWheel({ user, bodies }: FunctionClientDeps, low: Lowstate): Promise<WireMap> {
  const { tag, jid } = await user.wheel.start(await toCall(low, bodies));
  return { tag, jid };
}

/** Keywords stand in `kwarg`, beside the command's own fields, or in `arg` as `name=value`. */
async function toCall(
  given: Lowstate,
  bodies: FunctionClientDeps['bodies'],
): Promise<FunctionCall> {
  const low = masterForm(given);
  const { timeout: _, ...more } = omitFields(low, ownFields);
  return { fun: low.fun, ...(await argumentsOf(low, bodies, more)), dropUnknown: true };
}

function wheelEvent(
  { name }: FunctionClientDeps,
  { fun }: FunctionCall,
  { jid, return: value, success }: { jid: string; return: WireValue; success: boolean },
): WireMap {
  const tag = `salt/wheel/${jid}`;
  const data = { fun: `wheel.${fun}`, jid, tag, user: name, _stamp: formatEventStamp(new Date()) };
  return { tag, data: { ...data, return: value, success } };
}

/** Positional values, then one map of keywords if there are any. */
function functionArguments({ arg = [], kwarg = {} }: FunctionCall): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg }];
}

/** Wrong arguments are told as a value. @throws what else it was */
function answerFor(error: unknown): WireValue {
  if (error instanceof MasterError && error.code === 'ERR_ARGS') {
    return `Passed invalid arguments: ${error.message}`;
  }
  throw error;
}

function isAboutCall({ code }: MasterError): boolean {
  return code === 'ERR_ARGS' || code === 'ERR_UNKNOWN_FUN' || code === 'ERR_NOT_SERVED';
}

/** @throws SaltApiError ERR_HTTP_TIMEOUT; the work goes on */
async function withTimeout<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new SaltApiError('ERR_HTTP_TIMEOUT', `the runner took more than ${seconds} s`);
    timer = setTimeout(() => reject(error), Math.min(seconds * 1000, longestTimerMs));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

// The clients `local`, `local_async`, `local_batch` and `local_subset`.

export interface LocalClientDeps {
  readonly user: UserApi;
  readonly bodies: Pick<BodyReader, 'readWords'>;
}

type JobReturn = Extract<JobUpdate, { type: 'return' }>;

/** Minions that `local_subset` chooses where nothing is said. */
const usualSubset = 3;

/** `{minion: value}`; who did not answer has `false`. */
export async function runLocal(
  { user, bodies }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const request = await toRequest(localForm(low), bodies);
  return collect(request, user.jobs.run(request, signal), low.full_return === true);
}

/** The same, on a few minions that have the function. */
async function runSubset(
  { user, bodies }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const form = subsetForm(low);
  const subset = countOf(form.subset ?? form.sub) ?? usualSubset;
  const request = { ...(await toRequest(form, bodies)), subset };
  return collect(request, user.jobs.run(request, signal), low.full_return === true);
}

/** Exactly `{jid, minions}`; nothing where nobody is meant. */
async function startLocal({ user, bodies }: LocalClientDeps, low: Lowstate): Promise<WireMap> {
  const request = await toRequest(localForm(low), bodies);
  const { jid, minions, problem } = await user.jobs.publish(request);
  if (problem !== undefined) throw brokenTarget(request, problem);
  return minions.length === 0 ? {} : { jid, minions: [...minions] };
}

/** A map for each minion, in the order in which they answered. */
async function runBatch(
  { user, bodies }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireMap[]> {
  const form = batchForm(low);
  const waitSeconds = secondsOf(low, 'batch_wait');
  const request = {
    ...(await toRequest(form, bodies)),
    size: form.batch,
    failHard: form.failhard === true,
    ...(waitSeconds === undefined ? {} : { waitSeconds }),
  };
  const returns: WireMap[] = [];
  for await (const update of user.jobs.batch(request, signal)) {
    if (update.type !== 'return') continue;
    returns.push({ [returnerOf(update)]: describeReturn(update, low.full_return === true) });
  }
  return returns;
}

async function collect(
  request: RunRequest,
  updates: AsyncIterable<JobUpdate>,
  isFull: boolean,
): Promise<WireMap> {
  const values: WireMap = Object.create(null);
  for await (const update of updates) {
    if (update.type === 'published' && update.problem !== undefined) {
      throw brokenTarget(request, update.problem);
    }
    if (update.type === 'return') values[returnerOf(update)] = describeReturn(update, isFull);
    if (update.type !== 'finished') continue;
    for (const minion of [...update.silent, ...update.reconnecting]) values[minion] = false;
  }
  return values;
}

function describeReturn(result: JobReturn, isFull: boolean): WireValue {
  const { return: value, retcode, jid, out } = result;
  if (!isFull) return value;
  return { ret: value, retcode, jid, ...(out === undefined ? {} : { out }) };
}

/** What is passed on; everything else of a command is not looked at. */
async function toRequest(
  low: Lowstate & LocalForm,
  bodies: LocalClientDeps['bodies'],
): Promise<RunRequest> {
  const { tgt, ret, jid, delimiter } = low;
  const tgtType = low.tgt_type ?? (typeof tgt === 'string' ? undefined : 'list');
  const timeoutSeconds = secondsOf(low, 'timeout');
  const gatherJobTimeoutSeconds = secondsOf(low, 'gather_job_timeout');
  return {
    tgt,
    ...(await functionsOf(low, bodies)),
    ...(tgtType === undefined ? {} : { tgtType }),
    ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
    ...(gatherJobTimeoutSeconds === undefined ? {} : { gatherJobTimeoutSeconds }),
    ...(isGiven(ret) ? { ret } : {}),
    ...(isGiven(jid) ? { jid } : {}),
    ...(isGiven(delimiter) ? { delimiter } : {}),
    ...(isWireMap(low.metadata) ? { metadata: low.metadata } : {}),
  };
}

/** One function with its arguments; or several, and a list of arguments for each. */
async function functionsOf(
  low: Lowstate & LocalForm,
  bodies: LocalClientDeps['bodies'],
): Promise<Pick<RunRequest, 'fun' | 'arg' | 'kwarg'>> {
  const { fun, arg } = low;
  if (typeof fun === 'string') return { fun, ...(await argumentsOf(low, bodies)) };
  const ofEach: WireValue[] = [];
  for (const value of Array.isArray(arg) ? arg : []) ofEach.push(await asArguments(value, bodies));
  return { fun, arg: ofEach };
}

/** The arguments of one of several functions: keywords are its last value. */
async function asArguments(
  value: WireValue,
  bodies: LocalClientDeps['bodies'],
): Promise<WireValue> {
  return joinKeywords(await argumentsOf({ arg: value }, bodies));
}

function isGiven(text: string | null | undefined): text is string {
  return text !== undefined && text !== null && text !== '';
}

function countOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return undefined;
  const count = typeof value === 'string' ? Number(value) : value;
  if (typeof count === 'number' && Number.isSafeInteger(count) && count > 0) return count;
  throw new SaltApiError('ERR_HTTP_FIELDS', 'subset: expected a number of minions');
}

/** Clients know an unknown nodegroup as an unexpected error. */
function brokenTarget({ tgt }: RunRequest, problem: string): SaltApiError {
  const hasGroup = [tgt].flat().some((text) => /(?:^|[\s(])N@/.test(text));
  const options = hasGroup ? { status: 500 } : {};
  return new SaltApiError('ERR_HTTP_FIELDS', `tgt: ${problem}`, options);
}

type RunClient = (
  caller: Caller,
  low: Lowstate,
  context: ApiContext,
  signal: AbortSignal,
) => Promise<readonly WireValue[]>;

const asList =
  (run: (...parameters: Parameters<RunClient>) => Promise<WireValue>): RunClient =>
  async (...parameters) => [await run(...parameters)];

const clients: ReadonlyMap<string, RunClient> = new Map<string, RunClient>([
  ['local', asList(({ user }, low, { bodies }, signal) => runLocal({ user, bodies }, low, signal))],
  ['local_async', asList(({ user }, low, { bodies }) => startLocal({ user, bodies }, low))],
  ['local_batch', ({ user }, low, { bodies }, signal) => runBatch({ user, bodies }, low, signal)],
  [
    'local_subset',
    asList(({ user }, low, { bodies }, signal) => runSubset({ user, bodies }, low, signal)),
  ],
  ['runner', asList((caller, low, context) => runRunner(functionClientDeps(caller, context), low))],
  [
    'runner_async',
    asList((caller, low, context) => startRunner(functionClientDeps(caller, context), low)),
  ],
  ['wheel', asList((caller, low, context) => runWheel(functionClientDeps(caller, context), low))],
  [
    'wheel_async',
    asList((caller, low, context) => startWheel(functionClientDeps(caller, context), low)),
  ],
]);

/** Names of the clients there are; `ssh` is not one. */
export const clientNames: readonly string[] = [...clients.keys()];

/** A client that is served. @throws SaltApiError ERR_HTTP_CLIENT */
export function checkClient(context: ApiContext, { client }: Lowstate): string {
  // protection: unknown-clients
  if (typeof client === 'string' && context.clients.has(client)) return client;
  throw new SaltApiError(
    'ERR_HTTP_CLIENT',
    'expected one of the clients that are served as client; GET / lists them',
  );
}

/** Does one command. @returns the elements that it adds to the answer */
export async function executeLowstate(
  context: ApiContext,
  caller: Caller,
  low: Lowstate,
  signal: AbortSignal,
): Promise<readonly WireValue[]> {
  const run = clients.get(checkClient(context, low));
  if (run === undefined) throw new SaltApiError('ERR_HTTP_CLIENT', 'no such client');
  return run(caller, low, context, signal);
}

function functionClientDeps(
  { user, name }: Caller,
  { options, nextJid, bodies }: ApiContext,
): Parameters<typeof runRunner>[0] {
  return { user, name, timeout: options.runnerTimeoutSeconds, nextJid, bodies };
}

/** The clients `local`, `local_async`, `local_batch` and `local_subset` [CONTRACT 4.1 to 4.4]. */
import type { JobUpdate, RunRequest, UserApi } from '../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { SaltApiError } from '../errors.ts';
import { argumentsOf, type Lowstate, missing, secondsOf, textOf } from '../lowstate.ts';

type JobReturn = Extract<JobUpdate, { type: 'return' }>;

/** Minions that `local_subset` chooses where nothing is said. */
const usualSubset = 3;

/** `{minion: value}`; who did not answer has `false`. */
export async function runLocal(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  return collect(user.jobs.run(toRequest(low), signal), low.full_return === true);
}

/** The same, on a few minions that have the function. */
export async function runSubset(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const subset = countOf(low.subset ?? low.sub) ?? usualSubset;
  return collect(user.jobs.run({ ...toRequest(low), subset }, signal), low.full_return === true);
}

/** Exactly `{jid, minions}`; nothing where nobody is meant. */
export async function startLocal(user: UserApi, low: Lowstate): Promise<WireMap> {
  const { jid, minions, problem } = await user.jobs.publish(toRequest(low));
  if (problem !== undefined) throw brokenTarget();
  return minions.length === 0 ? {} : { jid, minions: [...minions] };
}

/** A map for each minion, in the order in which they answered. */
export async function runBatch(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireMap[]> {
  const size = typeof low.batch === 'number' ? low.batch : textOf(low, 'batch');
  if (size === undefined) throw missing('batch');
  const waitSeconds = secondsOf(low, 'batch_wait');
  const request = {
    ...toRequest(low),
    size,
    failHard: low.failhard === true,
    ...(waitSeconds === undefined ? {} : { waitSeconds }),
  };
  const returns: WireMap[] = [];
  for await (const update of user.jobs.batch(request, signal)) {
    if (update.type !== 'return') continue;
    returns.push({ [update.minion]: describe(update, low.full_return === true) });
  }
  return returns;
}

async function collect(updates: AsyncIterable<JobUpdate>, isFull: boolean): Promise<WireMap> {
  const values: WireMap = Object.create(null);
  for await (const update of updates) {
    if (update.type === 'published' && update.problem !== undefined) throw brokenTarget();
    if (update.type === 'return') values[update.minion] = describe(update, isFull);
    if (update.type === 'finished') for (const minion of update.silent) values[minion] = false;
  }
  return values;
}

function describe(result: JobReturn, isFull: boolean): WireValue {
  const { return: value, retcode, jid, out } = result;
  if (!isFull) return value;
  return { ret: value, retcode, jid, ...(out === undefined ? {} : { out }) };
}

/** What is passed on; everything else of a command is not looked at. */
function toRequest(low: Lowstate): RunRequest {
  const { tgt } = low;
  if (tgt === undefined || tgt === null) throw missing('tgt');
  if (typeof tgt !== 'string' && !isTextList(tgt)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'tgt is neither text nor a list of texts');
  }
  const tgtType = textOf(low, 'tgt_type') ?? (typeof tgt === 'string' ? undefined : 'list');
  const timeout = secondsOf(low, 'timeout');
  const gatherJobTimeout = secondsOf(low, 'gather_job_timeout');
  const { ret, jid, delimiter } = {
    ret: textOf(low, 'ret'),
    jid: textOf(low, 'jid'),
    delimiter: textOf(low, 'delimiter'),
  };
  return {
    tgt,
    ...functionsOf(low),
    ...(tgtType === undefined ? {} : { tgtType }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeout }),
    ...(ret === undefined || ret === '' ? {} : { ret }),
    ...(jid === undefined || jid === '' ? {} : { jid }),
    ...(delimiter === undefined || delimiter === '' ? {} : { delimiter }),
    ...(isWireMap(low.metadata) ? { metadata: low.metadata } : {}),
  };
}

/** One function with its arguments; or several, and a list of arguments for each. */
function functionsOf(low: Lowstate): Pick<RunRequest, 'fun' | 'arg' | 'kwarg'> {
  const { fun, arg } = low;
  if (fun === undefined || fun === null || fun === '') throw missing('fun');
  if (typeof fun === 'string') return { fun, ...argumentsOf(low) };
  if (!isTextList(fun)) {
    throw new SaltApiError('ERR_HTTP_FIELDS', 'fun is neither text nor a list of texts');
  }
  return { fun, arg: Array.isArray(arg) ? arg.map(asArguments) : [] };
}

/** The arguments of one of several functions: keywords are its last value. */
function asArguments(value: WireValue): WireValue {
  const { arg, kwarg } = argumentsOf({ arg: value });
  return Object.keys(kwarg).length === 0 ? arg : [...arg, { ...kwarg, __kwarg__: true }];
}

function isTextList(value: WireValue): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function countOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return undefined;
  const count = typeof value === 'string' ? Number(value) : value;
  if (typeof count === 'number' && Number.isSafeInteger(count) && count > 0) return count;
  throw new SaltApiError('ERR_HTTP_FIELDS', 'subset is not a number of minions');
}

/** For instance a nodegroup that is none. */
function brokenTarget(): SaltApiError {
  return new SaltApiError('ERR_HTTP_FIELDS', 'the target cannot be read', { status: 500 });
}

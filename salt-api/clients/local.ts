/** The clients `local`, `local_async`, `local_batch` and `local_subset` [CONTRACT 4.1 to 4.4]. */
import { type JobUpdate, joinKeywords, type RunRequest, type UserApi } from '../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { SaltApiError } from '../errors.ts';
import { argumentsOf, type Lowstate, secondsOf } from '../lowstate.ts';
import { batchForm, type LocalForm, localForm, subsetForm } from './forms.ts';

type JobReturn = Extract<JobUpdate, { type: 'return' }>;

/** Minions that `local_subset` chooses where nothing is said. */
const usualSubset = 3;

/** `{minion: value}`; who did not answer has `false`. */
export async function runLocal(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  return collect(user.jobs.run(toRequest(localForm(low)), signal), low.full_return === true);
}

/** The same, on a few minions that have the function. */
export async function runSubset(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const form = subsetForm(low);
  const subset = countOf(form.subset ?? form.sub) ?? usualSubset;
  return collect(user.jobs.run({ ...toRequest(form), subset }, signal), low.full_return === true);
}

/** Exactly `{jid, minions}`; nothing where nobody is meant. */
export async function startLocal(user: UserApi, low: Lowstate): Promise<WireMap> {
  const { jid, minions, problem } = await user.jobs.publish(toRequest(localForm(low)));
  if (problem !== undefined) throw brokenTarget();
  return minions.length === 0 ? {} : { jid, minions: [...minions] };
}

/** A map for each minion, in the order in which they answered. */
export async function runBatch(
  user: UserApi,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireMap[]> {
  const form = batchForm(low);
  const waitSeconds = secondsOf(low, 'batch_wait');
  const request = {
    ...toRequest(form),
    size: form.batch,
    failHard: form.failhard === true,
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
function toRequest(low: Lowstate & LocalForm): RunRequest {
  const { tgt, ret, jid, delimiter } = low;
  const tgtType = low.tgt_type ?? (typeof tgt === 'string' ? undefined : 'list');
  const timeout = secondsOf(low, 'timeout');
  const gatherJobTimeout = secondsOf(low, 'gather_job_timeout');
  return {
    tgt,
    ...functionsOf(low),
    ...(tgtType === undefined ? {} : { tgtType }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(gatherJobTimeout === undefined ? {} : { gatherJobTimeout }),
    ...(isGiven(ret) ? { ret } : {}),
    ...(isGiven(jid) ? { jid } : {}),
    ...(isGiven(delimiter) ? { delimiter } : {}),
    ...(isWireMap(low.metadata) ? { metadata: low.metadata } : {}),
  };
}

/** One function with its arguments; or several, and a list of arguments for each. */
function functionsOf(low: Lowstate & LocalForm): Pick<RunRequest, 'fun' | 'arg' | 'kwarg'> {
  const { fun, arg } = low;
  if (typeof fun === 'string') return { fun, ...argumentsOf(low) };
  return { fun, arg: Array.isArray(arg) ? arg.map(asArguments) : [] };
}

/** The arguments of one of several functions: keywords are its last value. */
function asArguments(value: WireValue): WireValue {
  return joinKeywords(argumentsOf({ arg: value }));
}

function isGiven(text: string | null | undefined): text is string {
  return text !== undefined && text !== null && text !== '';
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

/** The clients `local`, `local_async`, `local_batch` and `local_subset`. */

import {
  type BatchUpdate,
  type JobUpdate,
  joinKeywords,
  type RunRequest,
  returnerOf,
  type UserApi,
} from '#master';
import { isWireMap, numberOf, type WireMap, type WireValue } from '#minion-protocol';
import { batchForm, type LocalForm, localForm, subsetForm } from './command-fields.ts';
import { SaltApiError } from './errors.ts';
import { argumentsOf, type Lowstate, secondsOf, type WordReader } from './lowstate.ts';

export interface LocalClientDeps {
  readonly user: { readonly jobs: Pick<UserApi['jobs'], 'batch' | 'publish' | 'run'> };
  /** Parses a command's arguments as if they were typed on a command line. */
  readonly readWords: WordReader;
  /** Texts for the member `warnings` of the response. */
  readonly warnings: Set<string>;
  /**
   * Counts a return toward the limit of the caller.
   * @throws LimitExceeded
   */
  readonly hold: (value: WireValue) => void;
}

/** Warning that the caller's rights have limited the target. It contains no minion id. */
const narrowedTarget = 'the job was sent only to the minions that the rights of the caller permit';

type JobReturn = Extract<JobUpdate, { type: 'return' }>;

/** Default number of minions for `local_subset`. */
const usualSubset = 3;

/**
 * Runs a command and returns `{minion: value}`. The value of a minion that did not return is
 * `false`.
 */
export async function runLocal(
  { user, readWords, warnings, hold }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const request = await toRequest(localForm(low), readWords);
  const updates = noteNarrowing(user.jobs.run(request, signal), warnings);
  return collect(updates, low.full_return === true, hold);
}

/** Runs a command on a few of the minions that have the function. */
export async function runSubset(
  { user, readWords, warnings, hold }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireValue> {
  const form = subsetForm(low);
  const subset = countOf(form.subset ?? form.sub) ?? usualSubset;
  const request = { ...(await toRequest(form, readWords)), subset };
  const updates = noteNarrowing(user.jobs.run(request, signal), warnings);
  return collect(updates, low.full_return === true, hold);
}

/**
 * Starts a job and returns exactly `{jid, minions}`. If the target matches no minion, the result is
 * empty.
 */
export async function startLocal(
  { user, readWords, warnings }: LocalClientDeps,
  low: Lowstate,
): Promise<WireMap> {
  const request = await toRequest(localForm(low), readWords);
  const { jid, minions, missing, isNarrowed, problem } = await user.jobs.publish(request);
  if (problem !== undefined) throw brokenTarget(problem);
  if (isNarrowed === true) warnings.add(narrowedTarget);
  if (missing.length > 0)
    warnings.add(`not addressed, because they have no accepted key: ${missing.join(', ')}`);
  return minions.length === 0 ? {} : { jid, minions: [...minions] };
}

/**
 * Runs a command in batches. Returns one map for each minion, in the order in which the minions
 * returned.
 */
export async function runBatch(
  { user, readWords, warnings, hold }: LocalClientDeps,
  low: Lowstate,
  signal: AbortSignal,
): Promise<WireMap[]> {
  const form = batchForm(low);
  const waitSeconds = secondsOf(low, 'batch_wait');
  const request = {
    ...(await toRequest(form, readWords)),
    size: form.batch,
    failHard: form.failhard === true,
    ...(waitSeconds === undefined ? {} : { waitSeconds }),
  };
  const returns: WireMap[] = [];
  for await (const update of noteNarrowing(user.jobs.batch(request, signal), warnings)) {
    if (update.type === 'gathered' && update.silent.length > 0) {
      warnings.add(`not in the batch, because they did not respond: ${update.silent.join(', ')}`);
    }
    if (update.type !== 'return') continue;
    hold(update.return);
    returns.push({ [returnerOf(update)]: describeReturn(update, low.full_return === true) });
  }
  return returns;
}

/**
 * Yields the updates of a job unchanged. If the job's target was limited by rights, adds a warning.
 */
async function* noteNarrowing<U extends BatchUpdate>(
  updates: AsyncIterable<U>,
  warnings: Set<string>,
): AsyncGenerator<U, void, void> {
  for await (const update of updates) {
    if ('isNarrowed' in update) warnings.add(narrowedTarget);
    yield update;
  }
}

async function collect(
  updates: AsyncIterable<JobUpdate>,
  isFull: boolean,
  hold: LocalClientDeps['hold'],
): Promise<WireMap> {
  const values: WireMap = Object.create(null);
  for await (const update of updates) {
    if (update.type === 'published' && update.problem !== undefined) {
      throw brokenTarget(update.problem);
    }
    if (update.type === 'return') {
      hold(update.return);
      values[returnerOf(update)] = describeReturn(update, isFull);
    }
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

/** Converts a command to a request. Ignores all other fields of the command. */
async function toRequest(low: Lowstate & LocalForm, readWords: WordReader): Promise<RunRequest> {
  const { tgt, ret, jid, delimiter } = low;
  const tgtType = low.tgt_type ?? (typeof tgt === 'string' ? undefined : 'list');
  const timeoutSeconds = secondsOf(low, 'timeout');
  const gatherJobTimeoutSeconds = secondsOf(low, 'gather_job_timeout');
  return {
    tgt,
    ...(await functionsOf(low, readWords)),
    ...(tgtType === undefined ? {} : { tgtType }),
    ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
    ...(gatherJobTimeoutSeconds === undefined ? {} : { gatherJobTimeoutSeconds }),
    ...(isGiven(ret) ? { ret } : {}),
    ...(isGiven(jid) ? { jid } : {}),
    ...(isGiven(delimiter) ? { delimiter } : {}),
    ...(isWireMap(low.metadata) ? { metadata: low.metadata } : {}),
  };
}

/**
 * Returns the function of a command with its arguments, or several functions with a list of
 * arguments each.
 */
async function functionsOf(
  low: Lowstate & LocalForm,
  readWords: WordReader,
): Promise<Pick<RunRequest, 'fun' | 'arg' | 'kwarg'>> {
  const { fun, arg } = low;
  if (typeof fun === 'string') return { fun, ...(await argumentsOf(low, readWords)) };
  const ofEach: WireValue[] = [];
  for (const value of Array.isArray(arg) ? arg : [])
    ofEach.push(await asArguments(value, readWords));
  return { fun, arg: ofEach };
}

/**
 * Returns the arguments of one function in a job with several functions. If there are keyword
 * arguments, a map of them is the last value.
 */
async function asArguments(value: WireValue, readWords: WordReader): Promise<WireValue> {
  return joinKeywords(await argumentsOf({ arg: value }, readWords));
}

function isGiven(text: string | null | undefined): text is string {
  return text !== undefined && text !== null && text !== '';
}

function countOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return undefined;
  const count = numberOf(value);
  if (count !== undefined && Number.isSafeInteger(count) && count > 0) return count;
  throw new SaltApiError('ERR_HTTP_FIELDS', 'subset: must be a number of minions');
}

function brokenTarget(problem: string): SaltApiError {
  return new SaltApiError('ERR_HTTP_FIELDS', `tgt: ${problem}`);
}

/**
 * Runs a job of an orchestration and collects the minions' answers [salt/modules/saltutil.py cmd,
 * _exec].
 */

import {
  type BatchUpdate,
  isFailureCode,
  type JobUpdate,
  type RunRequest,
  returnerOf,
} from '#master';
import { isWireMap, plainNumber, type WireMap, type WireValue } from '#minion-protocol';
import { codeOf } from '#runtime';
import { isList } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import type { BegunWork } from './journal.ts';
import { fireArguments, type OrchestrationContext, requester } from './orchestration-context.ts';
import { beginOnce, isTrue, SlsError, type StateCall } from './state-function.ts';

/** Arguments that both `salt.function` and `salt.state` accept. */
export const jobArguments: readonly string[] = [
  'tgt_type',
  'ret',
  'ret_config',
  'ret_kwargs',
  'expect_minions',
  'fail_minions',
  'timeout',
  'batch',
  'subset',
  'failhard',
  'ssh',
  'roster',
];

/** Answer of one minion to a job. */
export interface Answer {
  /** Returned value. `undefined` if an expected answer is missing. */
  readonly value: WireValue | undefined;
  readonly hasFailed: boolean;
}

/** Result of a job. */
export interface JobAnswers {
  /** Returned values by minion id, in order of arrival. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** Job id. `undefined` if there was no job or more than one. */
  readonly jid: string | undefined;
  /** Warnings about targeted minions that a batch or subset leaves out, as in Salt. */
  readonly warnings: readonly string[];
}

/** The function to run on minions. */
interface Work {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
  /** Whether a minion that does not respond counts as failed. */
  readonly expectsAll: boolean;
}

/**
 * Runs a function on minions, and waits for their answers.
 * @param kind - kind of call, which the event about the call states as `type`
 * @throws SlsError, MasterError
 */
export async function runOnMinions(
  context: OrchestrationContext,
  call: StateCall,
  kind: 'function' | 'state',
  work: Work,
): Promise<JobAnswers> {
  const { given } = call;
  if (isTrue(given.get('ssh'))) throw new SlsError('ssh is not served');
  const request = requestOf(context, call, work);
  const batch = given.get('batch');
  const published = publishedArguments(call, work);
  fireArguments(context, {
    type: kind,
    tgt: toWire(given.get('tgt') ?? null),
    name: call.name,
    args: published,
  });
  const { jobs, signal } = context;
  const isBatch = batch !== undefined && batch !== null;
  const begun = isBatch
    ? await beginOnce(call.step, `a batch of ${work.fun}`)
    : await call.step?.begin();
  const updates = isBatch
    ? jobs.batch(
        { ...request, size: textOf(batch), failHard: isTrue(given.get('failhard')) },
        signal,
      )
    : runOrFollow(context, request, begun);
  const isSubset = request.subset !== undefined;
  const { expectsAll } = work;
  const collected = await collect(updates, { expectsAll, isBatch, isSubset });
  signal.throwIfAborted();
  return collected;
}

/** Runs a job. If an earlier process has already published it, follows it instead. */
async function* runOrFollow(
  { jobs, signal, by }: OrchestrationContext,
  request: RunRequest,
  begun: BegunWork | undefined,
): AsyncGenerator<JobUpdate> {
  if (begun === undefined) {
    yield* jobs.run(request, signal);
    return;
  }
  const { jid, wasBegun } = begun;
  try {
    if (wasBegun) {
      yield* jobs.follow(jid, signal, by);
      return;
    }
  } catch (error) {
    if (codeOf(error) !== 'ERR_JOB_UNKNOWN') throw error;
  }
  yield* jobs.run({ ...request, jid }, signal);
}

function requestOf(
  context: OrchestrationContext,
  { given }: StateCall,
  { fun, arg, kwarg }: Work,
): RunRequest {
  const [timeout, subset] = [given.get('timeout'), given.get('subset')].map(plainNumber);
  const ret = given.get('ret');
  const tgt = given.get('tgt') ?? null;
  return {
    tgt: isList(tgt) ? tgt.map(textOf) : textOf(tgt),
    tgtType: textOf(given.get('tgt_type') ?? 'glob'),
    fun,
    arg,
    kwarg,
    ...requester(context),
    ...(typeof timeout === 'number' ? { timeoutSeconds: timeout } : {}),
    ...(typeof subset === 'number' ? { subset } : {}),
    ...(isTrue(ret) ? { ret: isList(ret) ? ret.map(textOf).join(',') : textOf(ret ?? '') } : {}),
  };
}

/**
 * Returns the `args` of the event that reports a call of a state. They have the form in which
 * Salt's client receives them.
 */
function publishedArguments({ given }: StateCall, { arg, kwarg, expectsAll }: Work): WireMap {
  const published: WireMap = {
    arg: [...arg],
    kwarg,
    ret: toWire(given.get('ret') ?? ''),
    timeout: toWire(given.get('timeout') ?? null),
    tgt_type: toWire(given.get('tgt_type') ?? 'glob'),
    ssh: false,
    expect_minions: expectsAll,
  };
  const [batch, subset] = [given.get('batch') ?? null, given.get('subset') ?? null];
  if (batch !== null) published.batch = textOf(batch);
  if (subset !== null) published.subset = toWire(subset);
  if (isTrue(given.get('failhard'))) published.failhard = true;
  return published;
}

/** Properties of a job that determine which answers and missing answers count as failures. */
interface Spread extends Pick<Work, 'expectsAll'> {
  readonly isBatch: boolean;
  readonly isSubset: boolean;
}

async function collect(
  updates: AsyncIterable<JobUpdate | BatchUpdate>,
  { expectsAll, isBatch, isSubset }: Spread,
): Promise<JobAnswers> {
  const answers = new Map<string, Answer>();
  let jid: string | undefined;
  let missing: readonly string[] = [];
  const warnings: string[] = [];
  for await (const update of updates) {
    if (update.type === 'published') ({ missing } = update);
    if (update.type === 'gathered' && update.silent.length > 0) {
      warnings.push(`Not in the batch, because they did not answer: ${update.silent.join(', ')}`);
    }
    if (update.type === 'return') {
      jid ??= update.jid;
      // In a batch, Salt gets the values without the return codes. A notice in place of a value does
      // not show a failure.
      const isJudged = !isBatch || update.notStored === true;
      const hasFailed = isJudged && isFailureCode(update.retcode);
      answers.set(returnerOf(update), { value: update.return, hasFailed });
    }
    if (update.type !== 'finished' || isBatch) continue;
    // As in Salt, a targeted name without an accepted key counts as failed, even if some minions
    // may be silent.
    const withoutKey = new Set(missing);
    for (const minion of [...update.silent, ...update.reconnecting]) {
      if (!expectsAll && !withoutKey.has(minion)) continue;
      if (isSubset && withoutKey.has(minion)) continue;
      answers.set(minion, { value: undefined, hasFailed: true });
    }
  }
  if (isSubset && missing.length > 0) {
    warnings.push(`Not in the subset, because they have no accepted key: ${missing.join(', ')}`);
  }
  return { answers, jid: isBatch ? undefined : jid, warnings };
}

/** Reads `fail_minions`, the minions that may fail. Returns a warning if the list is malformed. */
export function readFailMinions({ given }: StateCall): {
  readonly mayFail: ReadonlySet<string>;
  readonly warnings: readonly string[];
} {
  const said = given.get('fail_minions') ?? [];
  if (typeof said === 'string') {
    return { mayFail: new Set(said.split(',').map((id) => id.trim())), warnings: [] };
  }
  if (isList(said)) return { mayFail: new Set(said.map(textOf)), warnings: [] };
  const warning = "'fail_minions' needs to be a list or a comma separated string. Ignored.";
  return { mayFail: new Set(), warnings: [warning] };
}

/** Returns the values of a map, which may be an object or a `Map`. */
export function membersOf(value: WireValue | undefined): readonly WireValue[] {
  if (value instanceof Map) return [...value.values()];
  return isWireMap(value) ? Object.values(value) : [];
}

/**
 * Executes a command: publishes its jobs, follows them until they end, and determines the outcome.
 */

import {
  type AuditRequester,
  isFailureCode,
  type JobOrigin,
  type JobUpdate,
  type MasterApi,
  type RunRequest,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { linkSignals } from '#runtime';
import type { CompiledCommand } from './command-catalog.ts';
import type { MinionCall } from './command-definition.ts';
import type { CommandOutcome, CommandResult } from './command-request.ts';
import { type CommandRun, unaddressedResults } from './command-run.ts';

const retcodeReason = 'the minion returned a retcode other than 0';
const lostKeyReason =
  'the key of the minion was deleted, rejected or replaced before the minion returned';
const notStoredReason =
  'the master did not store the value of the return (saltbridge: limits: stored_return_bytes)';

/** Call to execute, its requester, and the signals that end the execution. */
export interface CommandExecution {
  readonly command: CompiledCommand;
  readonly call: MinionCall;
  readonly user: string;
  readonly by: AuditRequester | undefined;
  /** Aborted at the deadline of the run. The run then ends. */
  readonly deadline: AbortSignal;
  /** Aborted when the run is cancelled, or when its caller loses the right to run it. */
  readonly ended: AbortSignal;
  /**
   * Aborted when the master closes. The minions then continue their work, and the next process
   * continues the run. Absent if the run is not stored, so that no process can continue it.
   */
  readonly left?: AbortSignal;
  /**
   * Follows the first job instead of publishing it. Present if an earlier process has already
   * published this job.
   */
  readonly resume?: (options: {
    readonly signal: AbortSignal;
    readonly patienceSeconds: number;
  }) => AsyncIterable<JobUpdate>;
  /**
   * Results of minions that had returned when an earlier process ended, and whose keys have ended
   * since. Their returns are not received again.
   */
  readonly formerResults?: readonly CommandResult[];
  /**
   * Whether the rules still permit the command on these minions. Called before each further job of
   * the run. If they do not, no further job is published.
   */
  readonly mayRepeat: (minions: readonly string[]) => boolean;
  /** Returns the number of seconds until the deadline. */
  readonly secondsLeft: () => number;
}

/**
 * Publishes the command, and returns the outcome. If the command is idempotent and permits retries,
 * retries it on minions that have not succeeded. In the last attempt, minions have time until the
 * deadline, because a minion that does not respond may be busy or temporarily disconnected.
 */
export async function executeCommandRun(
  jobs: Pick<MasterApi['jobs'], 'run' | 'publish'>,
  run: CommandRun,
  work: CommandExecution,
): Promise<CommandOutcome> {
  const { definition } = work.command;
  const { signal: end } = linkSignals(work.deadline, work.ended, work.left, run.cancelled);
  const progress: RunProgress = { results: new Map(), jids: [], running: new Set() };
  const { results, jids } = progress;
  const tries = definition.idempotent === true ? (definition.retries ?? 0) : 0;
  /**
   * Follows a job until it ends.
   * @returns minions to which the job was never sent, because the publishing process ended too
   * early
   */
  const followAttempt = async (updates: AsyncIterable<JobUpdate>): Promise<readonly string[]> => {
    let notSent: readonly string[] = [];
    for await (const update of updates) {
      // If the run ended early, minions without a return may still be working. Do not report them
      // as silent.
      if (update.type === 'finished' && end.aborted) break;
      if (update.type === 'published') notSent = update.notSent ?? [];
      handleJobUpdate(work, run, update, progress);
    }
    return notSent;
  };
  for (const result of unaddressedResults(run.leftOut)) {
    run.tell({ type: 'result', jid: run.id, result });
  }
  const { formerResults = [] } = work;
  for (const result of formerResults) recordResult(run, run.id, results, result);
  let left = withoutLost(run, run.minions);
  if (left.length === 0 && formerResults.length > 0) jids.push(run.id);
  for (let attempt = 0; attempt <= tries && left.length > 0 && !end.aborted; attempt += 1) {
    if (attempt > 0 && !work.mayRepeat(left)) break;
    const patienceSeconds = attempt === tries ? work.secondsLeft() : 0;
    const now = { attempt, left, end, patienceSeconds };
    const notSent = withoutLost(run, await followAttempt(startAttempt(jobs, run, work, now)));
    if (notSent.length > 0 && !end.aborted && work.mayRepeat(notSent)) {
      // Minions ignore a job id that they have seen. Minions that missed the first job therefore
      // get a new one.
      await followAttempt(jobs.run(jobRequestOf(run, work, notSent, { patienceSeconds }), end));
    }
    left = withoutLost(run, run.minions).filter((it) => results.get(it)?.state !== 'succeeded');
  }
  const isLeft = work.left?.aborted === true;
  if (end.aborted && !isLeft)
    await terminateJob(jobs, jids.at(-1), unfinishedMinions(run, results));
  return commandOutcomeOf(run, work, progress);
}

/** Returns the minions whose keys have not ended during the run. */
function withoutLost({ lost }: CommandRun, minions: readonly string[]): readonly string[] {
  return minions.filter((minion) => !lost.has(minion));
}

function startAttempt(
  jobs: Pick<MasterApi['jobs'], 'run'>,
  run: CommandRun,
  work: CommandExecution,
  { attempt, left, end, patienceSeconds }: Attempt,
): AsyncIterable<JobUpdate> {
  if (attempt === 0 && work.resume !== undefined) {
    return work.resume({ signal: end, patienceSeconds });
  }
  const own = attempt === 0 ? { jid: run.id, patienceSeconds } : { patienceSeconds };
  return jobs.run(jobRequestOf(run, work, left, own), end);
}

interface Attempt {
  /**
   * Number of this attempt, counted from 0. Every further attempt runs the command only on minions
   * on which it has not succeeded yet.
   */
  readonly attempt: number;
  /** Minions that have not succeeded yet. */
  readonly left: readonly string[];
  readonly end: AbortSignal;
  readonly patienceSeconds: number;
}

interface RunProgress {
  readonly results: Map<string, CommandResult>;
  readonly jids: string[];
  /** Minions that have reported that they are running the command. */
  readonly running: Set<string>;
}

function jobRequestOf(
  { leftOut }: CommandRun,
  { call, user, by }: CommandExecution,
  minions: readonly string[],
  own: Pick<RunRequest, 'jid' | 'patienceSeconds'>,
): RunRequest & JobOrigin {
  const asked = by === undefined ? {} : { by };
  return { ...call, tgt: minions, tgtType: 'list', user, leftOut, ...own, ...asked };
}

function handleJobUpdate(
  { command }: CommandExecution,
  run: CommandRun,
  update: JobUpdate,
  { results, jids, running }: RunProgress,
): void {
  const { jid } = update;
  switch (update.type) {
    case 'published':
      jids.push(jid);
      run.tell({ type: 'published', jid, minions: update.minions });
      break;
    case 'return':
      // Ignore returns of resources that a minion manages. Only the minion's own return is its
      // result. Also ignore returns of a machine that has the id of another one now.
      if (update.resource === undefined && !run.lost.has(update.minion))
        recordResult(run, jid, results, commandResultOf(command, update));
      break;
    case 'running':
      for (const minion of update.minions) running.add(minion);
      run.tell({ type: 'running', jid, minions: update.minions });
      break;
    case 'finished': {
      const notSent = new Set(
        update.deliveries.flatMap(({ minion, reason }) => (reason === 'not-sent' ? minion : [])),
      );
      const addressed = new Set(run.minions);
      for (const minion of update.silent.filter((id) => addressed.has(id))) {
        const reason = notSent.has(minion)
          ? 'the master ended before it sent the command to this minion'
          : 'no response';
        recordResult(run, jid, results, { minion, state: 'silent', reason });
      }
      for (const minion of update.reconnecting) {
        const reason = 'the minion has not reconnected since the master restarted';
        recordResult(run, jid, results, { minion, state: 'reconnecting', reason });
      }
    }
  }
}

function recordResult(
  run: CommandRun,
  jid: string,
  results: Map<string, CommandResult>,
  given: CommandResult,
): void {
  const result = run.admit(given);
  results.set(result.minion, result);
  run.tell({ type: 'result', jid, result });
}

/**
 * Converts the return of a minion to the result of a command on this minion: `succeeded` or
 * `failed`.
 */
export function commandResultOf(
  command: CompiledCommand,
  {
    minion,
    return: value,
    retcode,
    notStored,
  }: Pick<Extract<JobUpdate, { type: 'return' }>, 'minion' | 'notStored' | 'return' | 'retcode'>,
): CommandResult {
  if (notStored === true) return resultWithoutValue(command, { minion, retcode }, value);
  const problem = isFailureCode(retcode) ? retcodeReason : command.problemOfReturn(value);
  const common = { minion, return: value, retcode };
  if (problem === undefined) return { ...common, state: 'succeeded' };
  return { ...common, state: 'failed', reason: problem };
}

/**
 * Returns the result of a command whose return the master did not store completely. If the command
 * requires a certain form of the value, it is unknown whether the command succeeded, so it failed.
 */
function resultWithoutValue(
  command: CompiledCommand,
  common: Pick<CommandResult, 'minion' | 'retcode'>,
  notice: WireValue,
): CommandResult {
  if (isFailureCode(common.retcode ?? null)) {
    return { ...common, state: 'failed', reason: `${retcodeReason}; ${notStoredReason}` };
  }
  const isKnown = command.problemOfReturn(notice) === undefined;
  return isKnown
    ? { ...common, state: 'succeeded', reason: notStoredReason }
    : { ...common, state: 'failed', reason: `the result is unknown: ${notStoredReason}` };
}

function unfinishedMinions(
  run: CommandRun,
  results: ReadonlyMap<string, CommandResult>,
): readonly string[] {
  return withoutLost(run, run.minions).filter((minion) => {
    const state = results.get(minion)?.state;
    return state === undefined || state === 'silent' || state === 'reconnecting';
  });
}

/** Terminates the job on minions that have not finished. */
async function terminateJob(
  jobs: Pick<MasterApi['jobs'], 'publish'>,
  jid: string | undefined,
  minions: readonly string[],
): Promise<void> {
  if (jid === undefined || minions.length === 0) return;
  await jobs.publish({
    tgt: minions,
    tgtType: 'list',
    fun: 'saltutil.term_job',
    kwarg: { jid },
  });
}

function commandOutcomeOf(
  run: CommandRun,
  work: CommandExecution,
  { results, jids, running }: RunProgress,
): CommandOutcome {
  const all = run.minions.map((minion): CommandResult => {
    const known = results.get(minion);
    if (known === undefined && run.lost.has(minion)) {
      return { minion, state: 'silent', reason: lostKeyReason };
    }
    const isSilent = work.deadline.aborted && !running.has(minion);
    const reason = isSilent
      ? 'the minion did not return before the deadline of the run'
      : 'the run ended before the minion returned';
    return known ?? { minion, state: 'unfinished', reason };
  });
  const status = outcomeStatus(run, work, [...all, ...unaddressedResults(run.leftOut)]);
  return run.outcomeOf(all, { status, jids });
}

function outcomeStatus(
  run: CommandRun,
  { deadline, left }: CommandExecution,
  results: readonly CommandResult[],
): CommandOutcome['status'] {
  const over = completedStatus(results);
  if (over !== undefined) return over;
  if (left?.aborted === true && !run.cancelled.aborted) return 'interrupted';
  return deadline.aborted && !run.cancelled.aborted ? 'timeout' : 'cancelled';
}

/** Returns the final status if every minion has a result, or `undefined` if some are unfinished. */
export function completedStatus(
  results: readonly CommandResult[],
): 'succeeded' | 'failed' | undefined {
  if (results.some(({ state }) => state === 'unfinished')) return undefined;
  return results.every(({ state }) => state === 'succeeded') ? 'succeeded' : 'failed';
}

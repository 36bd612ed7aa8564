/** A run from its first job to its outcome. */
import {
  type AuditRequester,
  isFailureCode,
  type JobUpdate,
  linkSignals,
  type MasterApi,
  type RunRequest,
} from '../../master/index.ts';
import type { CompiledCommand, MinionCall } from '../catalog/compile-command.ts';
import type { LiveRun } from './live-run.ts';
import type { CommandOutcome, CommandResult } from './request.ts';

/** What is to be done. */
export interface RunWork {
  readonly command: CompiledCommand;
  readonly call: MinionCall;
  readonly user: string;
  readonly by: AuditRequester | undefined;
  /** Ends the run, whatever of it is left. */
  readonly deadline: AbortSignal;
  /** Ends it as if it had been cancelled. */
  readonly ended: AbortSignal;
  /** The master is being closed: what is under way is left to the next one. */
  readonly left?: AbortSignal;
  /** Its first job, where that was published before. */
  readonly resume?: (end: AbortSignal) => AsyncIterable<JobUpdate>;
}

/** Publishes, and tries again where the command may be. */
export async function followRun(
  jobs: Pick<MasterApi['jobs'], 'run' | 'publish'>,
  run: LiveRun,
  work: RunWork,
): Promise<CommandOutcome> {
  const { definition } = work.command;
  const { signal: end } = linkSignals(work.deadline, work.ended, work.left, run.cancelled);
  const results = new Map<string, CommandResult>();
  const jids: string[] = [];
  const tries = definition.idempotent === true ? (definition.retries ?? 0) : 0;
  let left = run.minions;
  for (let attempt = 0; attempt <= tries && left.length > 0 && !end.aborted; attempt += 1) {
    for await (const update of attemptOf(jobs, run, work, { attempt, left, end })) {
      // Those that were still at it when the run ended are not silent.
      if (update.type === 'finished' && end.aborted) break;
      note(work, run, update, { results, jids });
    }
    left = run.minions.filter((minion) => results.get(minion)?.state !== 'succeeded');
  }
  const isLeft = work.left?.aborted === true;
  if (end.aborted && !isLeft) await endJob(jobs, jids.at(-1), unfinished(run, results));
  return outcomeOf(run, work, { results, jids });
}

function attemptOf(
  jobs: Pick<MasterApi['jobs'], 'run'>,
  run: LiveRun,
  work: RunWork,
  now: { readonly attempt: number; readonly left: readonly string[]; readonly end: AbortSignal },
): AsyncIterable<JobUpdate> {
  const { attempt, left, end } = now;
  if (attempt === 0 && work.resume !== undefined) return work.resume(end);
  return jobs.run(requestOf(work, left, attempt === 0 ? { jid: run.id } : {}), end);
}

interface Progress {
  readonly results: Map<string, CommandResult>;
  readonly jids: string[];
}

function requestOf(
  { call, user, by }: RunWork,
  minions: readonly string[],
  own: { readonly jid?: string },
): RunRequest {
  const asked = by === undefined ? {} : { by };
  return { ...call, tgt: minions, tgtType: 'list', user, ...own, ...asked };
}

function note(
  { command }: RunWork,
  run: LiveRun,
  update: JobUpdate,
  { results, jids }: Progress,
): void {
  const { jid } = update;
  switch (update.type) {
    case 'published':
      jids.push(jid);
      run.tell({ type: 'published', jid, minions: update.minions });
      break;
    case 'return':
      // A command is for minions, not for what they manage.
      if (update.resource === undefined) tell(run, jid, results, resultOf(command, update));
      break;
    case 'running':
      run.tell({ type: 'running', jid, minions: update.minions });
      break;
    case 'finished':
      for (const minion of update.silent) {
        tell(run, jid, results, { minion, state: 'silent', reason: 'it did not answer' });
      }
      for (const minion of update.reconnecting) {
        const reason = 'it had not come back from the restart of the master';
        tell(run, jid, results, { minion, state: 'reconnecting', reason });
      }
  }
}

function tell(
  run: LiveRun,
  jid: string,
  results: Map<string, CommandResult>,
  result: CommandResult,
): void {
  results.set(result.minion, result);
  run.tell({ type: 'result', jid, result });
}

/** What a return means. */
export function resultOf(
  command: CompiledCommand,
  {
    minion,
    return: value,
    retcode,
  }: Pick<Extract<JobUpdate, { type: 'return' }>, 'minion' | 'return' | 'retcode'>,
): CommandResult {
  const problem = isFailureCode(retcode) ? 'the retcode is not 0' : command.problemOfReturn(value);
  const common = { minion, return: value, retcode };
  if (problem === undefined) return { ...common, state: 'succeeded' };
  return { ...common, state: 'failed', reason: problem };
}

function unfinished(run: LiveRun, results: ReadonlyMap<string, CommandResult>): string[] {
  return run.minions.filter((minion) => {
    const state = results.get(minion)?.state;
    return state === undefined || state === 'silent' || state === 'reconnecting';
  });
}

/** What was begun is not left to itself. */
async function endJob(
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

function outcomeOf(run: LiveRun, work: RunWork, { results, jids }: Progress): CommandOutcome {
  const all = run.minions.map((minion): CommandResult => {
    const open = { minion, state: 'unfinished', reason: 'the run ended before it' } as const;
    return results.get(minion) ?? open;
  });
  return {
    id: run.id,
    command: run.command,
    status: statusOf(run, work, all),
    results: all,
    jids,
  };
}

function statusOf(
  run: LiveRun,
  { deadline, left }: RunWork,
  results: readonly CommandResult[],
): CommandOutcome['status'] {
  const over = overOf(results);
  if (over !== undefined) return over;
  if (left?.aborted === true && !run.cancelled.aborted) return 'interrupted';
  return deadline.aborted && !run.cancelled.aborted ? 'timeout' : 'cancelled';
}

/** What became of a run in which every minion had its say. */
export function overOf(results: readonly CommandResult[]): 'succeeded' | 'failed' | undefined {
  if (results.some(({ state }) => state === 'unfinished')) return undefined;
  return results.every(({ state }) => state === 'succeeded') ? 'succeeded' : 'failed';
}

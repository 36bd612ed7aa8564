/** A run of the master before this one: what the job cache has of it. */
import { type ExtensionHost, type JobReport, MasterError } from '../../master/index.ts';
import type { CompiledCommand } from '../catalog/compile-command.ts';
import { overOf, resultOf } from './follow-run.ts';
import type { KeptRun } from './kept-run.ts';
import type { CommandOutcome, CommandResult } from './request.ts';

/** How a run stands that was not over when its master ended. */
export type RecalledRun =
  /** Its job never left. */
  | { readonly state: 'unpublished' }
  /** Its time is not over, and not all is there. */
  | { readonly state: 'open' }
  | { readonly state: 'over'; readonly outcome: CommandOutcome };

/** Where the job cache may have forgotten, it is rather not done than done twice. */
export async function recallRun(
  host: Pick<ExtensionHost, 'config' | 'master' | 'now'>,
  command: CompiledCommand,
  kept: KeptRun,
): Promise<RecalledRun> {
  const job = await tryJob(host, kept.id);
  if (job === undefined && isRemembered(host, kept)) return { state: 'unpublished' };
  const own = job?.returns.filter(({ resource }) => resource === undefined);
  const known = new Map(own?.map((one) => [one.minion, resultOf(command, one)]));
  const results = kept.minions.map((minion): CommandResult => {
    const lost = { minion, state: 'unfinished', reason: 'the master ended' } as const;
    return known.get(minion) ?? lost;
  });
  const over = overOf(results);
  const mayGoOn = job !== undefined && host.now() < kept.deadline;
  const isFinal = over === 'succeeded' || (over === 'failed' && !isTriedAgain(command));
  if (mayGoOn && !isFinal) return { state: 'open' };
  const { id } = kept;
  const status = over ?? ('interrupted' as const);
  const outcome = { id, command: command.definition.name, status, results, jids: [id] };
  return { state: 'over', outcome };
}

async function tryJob(
  { master }: Pick<ExtensionHost, 'master'>,
  jid: string,
): Promise<JobReport | undefined> {
  try {
    return await master().jobs.show(jid);
  } catch (error) {
    if (error instanceof MasterError && error.code === 'ERR_JOB_UNKNOWN') return undefined;
    throw error;
  }
}

function isRemembered(
  { config, now }: Pick<ExtensionHost, 'config' | 'now'>,
  { begunAt }: KeptRun,
): boolean {
  return config.jobCache && now() - begunAt < config.keepJobsSeconds * 1000;
}

function isTriedAgain({ definition }: CompiledCommand): boolean {
  return definition.idempotent === true && (definition.retries ?? 0) > 0;
}

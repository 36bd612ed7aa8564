import type { CallContext, JobReturn, MasterApi, RunRequest } from '#master';

/** Properties of a call that also apply to the jobs that the call runs. */
export type AskContext = Pick<CallContext, 'closing' | 'timeoutSeconds'>;

/** Dependencies of runners that call minions. */
export interface MinionCalls {
  readonly jobs: Pick<MasterApi['jobs'], 'run'>;
}

/** Result of a job on minions. */
export interface MinionAnswers {
  readonly returns: readonly JobReturn[];
  /** Minions that returned, sorted. */
  readonly answered: readonly string[];
  /** Minions that did not return, sorted. */
  readonly silent: readonly string[];
}

/** Runs a job on minions and waits until it has ended. */
export async function askMinions(
  { jobs }: MinionCalls,
  request: RunRequest,
  { closing, timeoutSeconds }: AskContext,
): Promise<MinionAnswers> {
  const timeout = timeoutSeconds === undefined ? {} : { timeoutSeconds };
  const returns: JobReturn[] = [];
  let [answered, silent]: [string[], string[]] = [[], []];
  for await (const update of jobs.run({ ...timeout, ...request }, closing)) {
    if (update.type === 'return') returns.push(update);
    if (update.type !== 'finished') continue;
    answered = [...update.answered].sort();
    silent = [...update.silent, ...update.reconnecting].sort();
  }
  return { returns, answered, silent };
}

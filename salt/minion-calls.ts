import type { CallContext, JobReturn, MasterApi, RunRequest } from '#master';

/** What of a call matters to the minions that are asked. */
export type AskContext = Pick<CallContext, 'closing' | 'timeoutSeconds'>;

/** What runners need to ask minions. */
export interface MinionCalls {
  readonly jobs: Pick<MasterApi['jobs'], 'run'>;
}

/** How a job ended. */
export interface MinionAnswers {
  readonly returns: readonly JobReturn[];
  /** Minions that returned, sorted. */
  readonly answered: readonly string[];
  /** Those that did not, sorted. */
  readonly silent: readonly string[];
}

/** Runs a job to its end. */
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

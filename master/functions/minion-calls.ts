import type { JobReturn, JobsApi, RunRequest } from '../api/index.ts';
import type { CallContext } from './caller.ts';

/** What of a call matters to the minions that are asked. */
export type AskContext = Pick<CallContext, 'closing' | 'timeoutSeconds'>;

/** What runners need to ask minions. */
export interface MinionCalls {
  readonly jobs: Pick<JobsApi, 'run'>;
}

/** Runs a job to its end. */
export async function askMinions(
  parts: MinionCalls,
  request: RunRequest,
  context: AskContext,
): Promise<JobReturn[]> {
  const returns: JobReturn[] = [];
  for await (const update of parts.jobs.run(withTimeout(request, context), context.closing)) {
    if (update.type === 'return') returns.push(update);
  }
  return returns;
}

/** Runs a job to its end. */
export async function countAnswers(
  parts: MinionCalls,
  request: RunRequest,
  context: AskContext,
): Promise<{ readonly answered: readonly string[]; readonly silent: readonly string[] }> {
  for await (const update of parts.jobs.run(withTimeout(request, context), context.closing)) {
    if (update.type !== 'finished') continue;
    const silent = [...update.silent, ...update.reconnecting].sort();
    return { answered: [...update.answered].sort(), silent };
  }
  return { answered: [], silent: [] };
}

function withTimeout(request: RunRequest, { timeoutSeconds }: AskContext): RunRequest {
  return timeoutSeconds === undefined ? request : { timeoutSeconds, ...request };
}

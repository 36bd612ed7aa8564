import { randomInt } from 'node:crypto';
import type { InProcessJobsApi, JobOrigin, JobUpdate, RunRequest } from '../api/index.ts';
import { runSubset } from './batch.ts';
import type { JobDispatcher } from './dispatcher.ts';
import { createJobEventQueue, type FollowDeps, followJob } from './follow-job.ts';

export interface RunDeps extends FollowDeps {
  readonly dispatcher: JobDispatcher;
}

/**
 * Publishes a job and follows it to its end, as Salt's LocalClient does [WIRE 15.5]. After
 * `timeoutSeconds` without a return, it asks the silent minions with `saltutil.find_job`, and then
 * waits only for minions that still run the job.
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runJob(
  parts: RunDeps,
  request: RunRequest & JobOrigin,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { current } = parts.config;
  const {
    timeoutSeconds = current.timeout,
    gatherJobTimeoutSeconds = current.gatherJobTimeout,
    patienceSeconds = 0,
  } = request;
  const news = createJobEventQueue();
  const { job, record, delivery, problem, stopListening } = await parts.dispatcher.publish(
    request,
    (result) => news.push({ type: 'return', result }),
  );
  try {
    const { jid, minions, missing, isNarrowed } = record;
    const { skipped } = delivery;
    const broken = problem === undefined ? {} : { problem };
    const narrowed = isNarrowed === true ? { isNarrowed } : {};
    yield { type: 'published', jid, minions, missing, skipped, ...narrowed, ...broken };
    const quietMs = timeoutSeconds * 1000;
    const patience = { firstMs: quietMs, quietMs, patienceMs: patienceSeconds * 1000 };
    const gatherMs = gatherJobTimeoutSeconds * 1000;
    const followed = { job, record, news, ...patience, gatherMs, by: request.by };
    yield* followJob(parts, followed, signal);
  } finally {
    stopListening();
  }
}

/**
 * Returns the function that publishes and follows jobs. If a request has `subset`, the job runs
 * only on that number of minions, which are chosen at random among those that have the function.
 */
export function createRun(parts: RunDeps): InProcessJobsApi['run'] {
  return (request, signal) =>
    request.subset === undefined
      ? runJob(parts, request, signal)
      : runSubset((one) => runJob(parts, one, signal), request, randomInt);
}

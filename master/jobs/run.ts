import type { JobDispatcher, PublishRequest } from './dispatcher.ts';
import { createNews, type FollowParts, followJob, type JobUpdate } from './follow.ts';

/** A job with the patience of whoever waits for it. */
export interface RunRequest extends PublishRequest {
  /** Seconds without news after which the silent minions are asked whether they still run it. */
  readonly timeout?: number;
  /** Seconds that they have for that answer. */
  readonly gatherJobTimeout?: number;
  /** Run on so many minions only, chosen at random among those that have the function. */
  readonly subset?: number;
}

/** What {@link runJob} works with. */
export interface RunParts extends FollowParts {
  readonly dispatcher: JobDispatcher;
}

/**
 * Publishes a job and follows it to its end, as Salt's LocalClient does [WIRE 15.5]: after
 * `timeout` without news it asks the silent minions with `saltutil.find_job`; those that still
 * run it are waited for, the others are not.
 * @throws MasterError ERR_BAD_TGT, ERR_ARGS
 */
export async function* runJob(
  parts: RunParts,
  request: RunRequest,
  signal?: AbortSignal,
): AsyncGenerator<JobUpdate, void, void> {
  const { timeout = parts.defaults.timeout } = request;
  const { gatherJobTimeout = parts.defaults.gatherJobTimeout } = request;
  const news = createNews();
  const { job, record, delivery, problem, stopListening } = await parts.dispatcher.publish(
    request,
    (result) => news.push({ type: 'return', result }),
  );
  try {
    const { jid, minions, missing } = record;
    const broken = problem === undefined ? {} : { problem };
    yield { type: 'published', jid, minions, missing, skipped: delivery.skipped, ...broken };
    const patience = { firstMs: timeout * 1000, quietMs: timeout * 1000 };
    const gatherMs = gatherJobTimeout * 1000;
    yield* followJob(parts, { job, record, news, ...patience, gatherMs }, signal);
  } finally {
    stopListening();
  }
}

import {
  type JobReturn,
  type JobUpdate,
  MasterError,
  type Requested,
  workBudgetOf,
} from '../api/index.ts';
import { createJobEventQueue, type FollowDeps, followJob } from './follow-job.ts';
import type { JobCache } from './job-cache.ts';

export interface ResumeDeps extends FollowDeps {
  readonly cache: Pick<JobCache, 'find' | 'notSentTo' | 'record' | 'returns'>;
  /** Clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
  /** Start of the master, in milliseconds since 1970. */
  readonly startedAt: number;
}

export interface FollowOptions extends Requested {
  readonly signal?: AbortSignal | undefined;
  /**
   * Time for which the master asks silent minions whether they still run the job, in seconds. It
   * then stops waiting for these minions, but not within 80 seconds after its own start. Default:
   * 0.
   */
  readonly patienceSeconds?: number | undefined;
}

/**
 * Minimum time without a return before the master first asks whether minions still run a resumed
 * job, in milliseconds. Minions need the time to reconnect. They try at least every ten seconds
 * (`recon_max`), and then send the returns of finished jobs.
 */
const reconnectMs = 30_000;

/**
 * Time after the start of the master within which minions send the returns that they could not send
 * before, in milliseconds. Salt's minions wait a minute for a reply to a return, and retry after
 * ten seconds. During this time they do not report the job as running.
 */
const returnMs = 80_000;

/**
 * Follows a job that was published earlier, possibly by an earlier master process. First yields the
 * returns that the master has already received.
 * @throws MasterError ERR_JOB_UNKNOWN if no job with this jid is stored
 */
export async function* resumeJob(
  parts: ResumeDeps,
  jid: string,
  { signal, patienceSeconds = 0, by }: FollowOptions = {},
): AsyncGenerator<JobUpdate, void, void> {
  const { cache, config, startedAt, now } = parts;
  const [job, record] = [await cache.find(jid), await cache.record(jid)];
  if (job === undefined || record === undefined) {
    throw new MasterError('ERR_JOB_UNKNOWN', 'no job with this jid is stored');
  }
  const news = createJobEventQueue();
  const heard = new Set<string>();
  const note = (result: JobReturn): void => {
    const name = [result.minion, result.resource].join('/');
    if (heard.has(name)) return;
    heard.add(name);
    news.push({ type: 'return', result });
  };
  // The listener is registered before the stored returns are read, so that it receives all later
  // returns.
  const stopListening = job.onReturn(note);
  try {
    const { minions, missing, skipped = 0, isNarrowed } = record;
    const notSent = cache.notSentTo(record);
    const left = notSent.size === 0 ? {} : { notSent: [...notSent] };
    const narrowed = isNarrowed === true ? { isNarrowed } : {};
    yield { type: 'published', jid, minions, missing, skipped, ...narrowed, ...left };
    for await (const result of cache.returns(jid, workBudgetOf(by))) {
      job.answer(result);
      note(result);
    }
    const { timeout, gatherJobTimeout } = config.current;
    const quietMs = timeout * 1000;
    const patienceMs = Math.max(startedAt + returnMs - now(), patienceSeconds * 1000);
    const patience = { firstMs: Math.max(reconnectMs, quietMs), quietMs, patienceMs };
    const gatherMs = gatherJobTimeout * 1000;
    const followed = { job, record, news, ...patience, gatherMs, notSent, by };
    yield* followJob(parts, followed, signal);
  } finally {
    stopListening();
  }
}

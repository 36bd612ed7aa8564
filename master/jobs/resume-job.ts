/** Resumes jobs of an earlier master process from the stored ledger. */

import { type JobReturn, type JobUpdate, MasterError } from '../api/index.ts';
import { createJobEventQueue, type FollowDeps, followJob } from './follow-job.ts';
import type { JobCache } from './job-cache.ts';

export interface ResumeDeps extends FollowDeps {
  readonly cache: Pick<JobCache, 'find' | 'notSentTo' | 'record' | 'returns'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Start of the master, in milliseconds since 1970. */
  readonly startedAt: number;
}

export interface FollowOptions {
  readonly signal?: AbortSignal | undefined;
  /** See {@link RunRequest.patienceSeconds}; it lasts until 80 s after the master's start at least. */
  readonly patienceSeconds?: number | undefined;
}

/**
 * Milliseconds that minions have to come back before they are asked: they look for a master that
 * was away every ten seconds at least (`recon_max`), and return meanwhile what they did.
 */
const reconnectMs = 30_000;

/**
 * Milliseconds for which a minion may hold back a return after the start of a master that was away.
 * Meanwhile it does not say that the job is running: Salt's minions forget a job before they send the
 * return, wait a minute for the reply, and try again after ten seconds.
 */
const returnMs = 80_000;

/**
 * Follows a job that was published before, as if it had been followed all the time: what came back
 * meanwhile comes first.
 * @throws MasterError ERR_JOB_UNKNOWN when none of this jid is kept
 */
export async function* resumeJob(
  parts: ResumeDeps,
  jid: string,
  { signal, patienceSeconds = 0 }: FollowOptions = {},
): AsyncGenerator<JobUpdate, void, void> {
  const { cache, config, startedAt, now } = parts;
  const [job, record] = [await cache.find(jid), await cache.record(jid)];
  if (job === undefined || record === undefined) {
    throw new MasterError('ERR_JOB_UNKNOWN', 'no job of this jid is kept');
  }
  const news = createJobEventQueue();
  const heard = new Set<string>();
  const note = (result: JobReturn): void => {
    const name = [result.minion, result.resource].join('/');
    if (heard.has(name)) return;
    heard.add(name);
    news.push({ type: 'return', result });
  };
  // Before what is kept is read, so that nothing falls between.
  const stopListening = job.onReturn(note);
  try {
    const { minions, missing, skipped = 0, isNarrowed } = record;
    const notSent = cache.notSentTo(record);
    const left = notSent.size === 0 ? {} : { notSent: [...notSent] };
    const narrowed = isNarrowed === true ? { isNarrowed } : {};
    yield { type: 'published', jid, minions, missing, skipped, ...narrowed, ...left };
    for await (const result of cache.returns(jid)) {
      job.answer(result);
      note(result);
    }
    const { timeout, gatherJobTimeout } = config.current;
    const quietMs = timeout * 1000;
    const patienceMs = Math.max(startedAt + returnMs - now(), patienceSeconds * 1000);
    const patience = { firstMs: Math.max(reconnectMs, quietMs), quietMs, patienceMs };
    const gatherMs = gatherJobTimeout * 1000;
    yield* followJob(parts, { job, record, news, ...patience, gatherMs, notSent }, signal);
  } finally {
    stopListening();
  }
}

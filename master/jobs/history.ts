import type { LiveConfig } from '#config';
import { userWork, WorkBudget } from '#runtime';
import {
  type Delivery,
  type DeliveryState,
  type JobListRequest,
  type JobReport,
  type JobReturn,
  type JobSummary,
  MasterError,
} from '../api/index.ts';
import { describeDeliveries, type MinionFacts } from './follow-job.ts';
import type { JobCache } from './job-cache.ts';
import type { JobRecord } from './job-row.ts';

/** Modules that the job history reads from. */
export interface HistoryDeps {
  readonly cache: JobCache;
  readonly facts: MinionFacts;
  readonly config: Pick<LiveConfig, 'current'>;
  /** Clock: returns the time in milliseconds since 1970. */
  readonly now: () => number;
}

const defaultLimit = 50;

/** Returns how long a job is treated as running if no caller follows it, in milliseconds. */
export function idleTimeoutMs({ current }: Pick<LiveConfig, 'current'>): number {
  return (current.timeout + current.gatherJobTimeout) * 1000;
}

/** Returns the stored jobs, latest first. */
export async function listJobs(
  parts: HistoryDeps,
  { limit = defaultLimit }: JobListRequest = {},
): Promise<JobSummary[]> {
  const summaries: JobSummary[] = [];
  const budget = new WorkBudget(userWork);
  for await (const record of parts.cache.records(limit, budget)) {
    const {
      arg: _arg,
      deliveries: _deliveries,
      returns: _returns,
      ...summary
    } = await report(parts, record, budget);
    summaries.push(summary);
  }
  return summaries;
}

/**
 * Returns a stored job with its returns and the state of each minion.
 * @throws MasterError ERR_JOB_UNKNOWN
 */
export async function showJob(parts: HistoryDeps, jid: string): Promise<JobReport> {
  const record = await parts.cache.record(jid);
  if (record === undefined)
    throw new MasterError('ERR_JOB_UNKNOWN', 'no job with this jid is stored');
  return report(parts, record);
}

async function report(
  parts: HistoryDeps,
  record: JobRecord,
  budget: WorkBudget = new WorkBudget(userWork),
): Promise<JobReport> {
  const { cache, facts, config, now } = parts;
  const returns: JobReturn[] = [];
  for await (const result of cache.returns(record.jid, budget)) returns.push(result);
  const job = cache.remembered(record.jid);
  const isFollowed = job?.isWatched === true || now() - record.publishedAt < idleTimeoutMs(config);
  const running = job?.running ?? new Set<string>();
  const progress = { returns, running, isFollowed, notSent: cache.notSentTo(record) };
  const deliveries = describeDeliveries(record, progress, facts);
  const { jid, fun, arg, tgt, tgtType, user, publishedAt, selfMade, isNarrowed } = record;
  const narrowed = isNarrowed === true ? { isNarrowed } : {};
  const summary = { jid, fun, tgt, tgtType, user, publishedAt, selfMade, ...narrowed };
  return { ...summary, arg, counts: countStates(deliveries), deliveries, returns };
}

function countStates(deliveries: readonly Delivery[]): Record<DeliveryState, number> {
  const counts = { answered: 0, failed: 0, running: 0, waiting: 0, reconnecting: 0, silent: 0 };
  for (const { state } of deliveries) counts[state] += 1;
  return counts;
}

/** The `jobs` runner [salt/runners/jobs.py]. */

import { type CallContext, type JobReturn, type Jobs, workBudgetOf } from '#master';
import { isJid, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import { type FunctionTable, masterFunction, withOutputter } from '../functions/define-function.ts';
import {
  count,
  flag,
  ignored,
  map,
  names,
  optional,
  required,
  text,
} from '../functions/parameters.ts';
import { saltLimits } from '../limits.ts';
import { askMinions, type MinionCalls } from '../minion-calls.ts';
import { describeJob, describeJobInFull, startTime } from './describe-job.ts';
import { type JobFilter, jobTest } from './job-filter.ts';

type JobRecord = NonNullable<Awaited<ReturnType<Jobs['cache']['record']>>>;

export interface JobsRunnerDeps extends MinionCalls {
  /** Returns the runners that are running now. */
  readonly running: () => readonly WireMap[];
  readonly cache: Pick<Jobs['cache'], 'record' | 'records' | 'returnedMinions' | 'returns'>;
}

/** Maximum number of jobs that `jobs.active` reads from the answer of one minion. */
const maxRunning = saltLimits.reportedJobs.perOwner ?? 0;
/** Maximum number of jobs to search. */
const maxJobs = 1_000_000;
/** Estimated work for reading the record of a job, in steps of a `WorkBudget`. */
const stepsOfRecord = 2000;
/** Estimated work for formatting a job for the result, in steps of a `WorkBudget`. */
const stepsOfDescription = 200;

/** Parameters of Salt's functions that this master accepts but ignores. */
const sources = { ext_source: ignored } as const;
const progress = { display_progress: ignored } as const;

const filters = {
  search_metadata: optional(map),
  search_function: optional(names),
  search_target: optional(names),
  start_time: optional(text),
  end_time: optional(text),
} as const;

export function jobsRunner(parts: JobsRunnerDeps): FunctionTable {
  return {
    'jobs.list_jobs': masterFunction({
      summary: 'Lists the stored jobs by jid, optionally filtered.',
      parameters: { ...sources, outputter: optional(text), ...filters, ...progress },
      call: async ({ outputter, ...filter }, { by }) => {
        const budget = workBudgetOf(by);
        const wanted = {
          functions: filter.search_function,
          targets: filter.search_target,
          metadata: filter.search_metadata,
          from: filter.start_time,
          to: filter.end_time,
        };
        const jobs = await findJobs(parts, budget, wanted);
        return withOutputter(outputter, await byJid(jobs, budget));
      },
    }),
    'jobs.list_jobs_filter': masterFunction({
      summary: 'Lists the latest jobs, oldest first; by default without jobs of saltutil.find_job.',
      parameters: {
        count: required(count),
        filter_find_job: optional(flag, true),
        ...sources,
        outputter: optional(text),
        ...progress,
      },
      call: async ({ count: limit, filter_find_job: isFiltered, outputter }, { by }) => {
        const budget = workBudgetOf(by);
        const isWanted = (job: JobRecord): boolean => !isFiltered || !isFindJob(job);
        const jobs = await findJobs(parts, budget, {}, isWanted, limit);
        const listed: WireMap[] = [];
        for await (const job of oldestFirst(jobs, budget)) {
          listed.push({ ...describeJob(job), JID: job.jid });
        }
        return withOutputter(outputter, listed);
      },
    }),
    'jobs.list_job': masterFunction({
      summary: 'Returns one job with its results.',
      parameters: { jid: required(text), ...sources, ...progress },
      call: async ({ jid }, { by }) => ({ jid, ...(await fullJob(parts, jid, workBudgetOf(by))) }),
    }),
    'jobs.print_job': masterFunction({
      summary: 'Returns one job with its results, as a map from its jid.',
      parameters: { jid: required(text), ...sources },
      call: async ({ jid }, { by }) =>
        new Map([[jid, await fullJob(parts, jid, workBudgetOf(by))]]),
    }),
    'jobs.lookup_jid': masterFunction({
      summary:
        'Returns the results of a job; with missing=True, includes the minions that did not return.',
      parameters: {
        jid: required(text),
        ...sources,
        returned: optional(flag, true),
        missing: optional(flag, false),
        ...progress,
      },
      call: async ({ jid, returned, missing }, { by }) =>
        lookUp(await readJob(parts, jid, workBudgetOf(by)), { returned, missing }),
    }),
    'jobs.exit_success': masterFunction({
      summary: 'Returns, for each minion of a job, whether its result is true.',
      parameters: { jid: required(text), ...sources },
      call: async ({ jid }, { by }) => {
        const { record, returns } = await readJob(parts, jid, workBudgetOf(by));
        const verdicts: WireMap = Object.create(null);
        for (const minion of record?.minions ?? []) verdicts[minion] = false;
        for (const one of returns) verdicts[one.minion] ??= false;
        for (const one of returns) if (isTruthy(one.return)) verdicts[one.minion] = true;
        return verdicts;
      },
    }),
    'jobs.last_run': masterFunction({
      summary: 'Returns the latest job with its results, optionally filtered.',
      parameters: {
        ...sources,
        outputter: ignored,
        metadata: optional(map),
        function: optional(names),
        target: optional(names),
        ...progress,
      },
      call: async ({ metadata, function: functions, target: targets }, { by }) => {
        const budget = workBudgetOf(by);
        const filter = { metadata, functions, targets };
        const [latest] = await findJobs(parts, budget, filter, () => true, 1);
        if (latest === undefined) return false;
        return new Map([[latest.jid, await fullJob(parts, latest.jid, budget)]]);
      },
    }),
    'jobs.master': masterFunction({
      summary: 'Lists the runners that run on this master.',
      parameters: {},
      call: () => parts.running().map((one) => ({ ...one, pid: process.pid })),
    }),
    'jobs.active': masterFunction({
      summary: 'Lists the jobs that run on minions, by jid.',
      parameters: progress,
      call: (_values, context) => activeJobs(parts, context),
    }),
  };
}

/** Finds jobs, the latest first. */
async function findJobs(
  { cache }: JobsRunnerDeps,
  budget: WorkBudget,
  filter: JobFilter,
  isWanted: (job: JobRecord) => boolean = () => true,
  limit = maxJobs,
): Promise<JobRecord[]> {
  const test = await jobTest(filter, budget);
  const found: JobRecord[] = [];
  if (limit === 0) return found;
  for await (const job of cache.records(maxJobs, budget)) {
    if (!(await test(job)) || !isWanted(job)) continue;
    found.push(job);
    if (found.length === limit) break;
  }
  return found;
}

/**
 * Returns jobs by jid in a `Map`. A plain object would sort them, because jids consist of digits.
 */
async function byJid(
  jobs: readonly JobRecord[],
  budget: WorkBudget,
): Promise<Map<WireValue, WireValue>> {
  const described = new Map<WireValue, WireValue>();
  for await (const job of oldestFirst(jobs, budget)) described.set(job.jid, describeJob(job));
  return described;
}

/**
 * Yields the given jobs in reverse order. Lets other work run in between, so that the caller can
 * format many jobs.
 */
async function* oldestFirst(
  jobs: readonly JobRecord[],
  budget: WorkBudget,
): AsyncGenerator<JobRecord, void, void> {
  for (const job of jobs.toReversed()) {
    await budget.giveWayAfter(stepsOfDescription + job.tgt.length);
    yield job;
  }
}

function isFindJob({ fun }: JobRecord): boolean {
  return fun === 'saltutil.find_job';
}

interface KeptJob {
  readonly record: JobRecord | undefined;
  readonly returns: readonly JobReturn[];
}

async function readJob(
  { cache }: JobsRunnerDeps,
  jid: string,
  budget: WorkBudget,
): Promise<KeptJob> {
  const record = jid === '' ? undefined : await cache.record(jid);
  const returns: JobReturn[] = [];
  if (record === undefined) return { record, returns };
  for await (const one of cache.returns(jid, budget)) {
    returns.push(one);
  }
  return { record, returns };
}

async function fullJob(parts: JobsRunnerDeps, jid: string, budget: WorkBudget): Promise<WireMap> {
  const { record, returns } = await readJob(parts, jid, budget);
  return describeJobInFull(jid, record, returns);
}

function lookUp(
  { record, returns }: KeptJob,
  { returned, missing }: { readonly returned: boolean; readonly missing: boolean },
): WireValue {
  const found: WireMap = Object.create(null);
  if (returned) for (const one of returns) found[one.minion] = one.return;
  const answered = new Set(returns.map(({ minion }) => minion));
  for (const minion of missing ? (record?.minions ?? []) : []) {
    if (!answered.has(minion)) found[minion] = 'Minion did not return';
  }
  return withOutputter(returns[0]?.out, found);
}

/** Job that minions report as running. */
type ActiveJob = WireMap & { Running: Record<string, WireValue>[]; Returned: WireValue };

async function activeJobs(parts: JobsRunnerDeps, context: CallContext): Promise<WireValue> {
  const jobs = new Map<string, ActiveJob>();
  const budget = workBudgetOf(context.by);
  const request = { tgt: '*', fun: 'saltutil.running' };
  const { returns } = await askMinions(parts, request, context);
  for (const { minion, return: running } of returns) {
    const reported = Array.isArray(running) ? running.slice(0, maxRunning) : [];
    for (const job of reported.filter(isWireMap)) {
      const jid = typeof job.jid === 'string' ? job.jid : '';
      await budget.giveWayAfter(stepsOfDescription);
      const known = jobs.get(jid) ?? activeJob(jid, job);
      known.Running.push({ [minion]: job.pid ?? null });
      jobs.set(jid, known);
    }
  }
  for (const [jid, job] of jobs) job.Returned = [...(await returnedOf(parts, jid, job, budget))];
  return new Map<WireValue, WireValue>([...jobs].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function activeJob(jid: string, runningJob: WireMap): ActiveJob {
  const {
    fun = 'unknown-function',
    arg,
    tgt = 'unknown-target',
    tgt_type = 'list',
    user,
  } = runningJob;
  return {
    Function: fun,
    Arguments: Array.isArray(arg) ? arg : [],
    Target: tgt,
    'Target-type': tgt_type,
    User: user ?? 'root',
    StartTime: startTime(jid),
    Running: [],
    Returned: [],
  };
}

/**
 * Returns the minions that have returned a job. The result is empty if the job was published to none
 * of the minions that report it, because a minion can report any jid.
 */
async function returnedOf(
  { cache }: JobsRunnerDeps,
  jid: string,
  { Running: running }: ActiveJob,
  budget: WorkBudget,
): Promise<readonly string[]> {
  if (!isJid(jid)) return [];
  await budget.giveWayAfter(stepsOfRecord);
  const minions = new Set((await cache.record(jid))?.minions);
  const isPublished = running.some((entry) => Object.keys(entry).some((id) => minions.has(id)));
  return isPublished ? cache.returnedMinions(jid, budget) : [];
}

/** Whether a value is true in Python. */
function isTruthy(value: WireValue): boolean {
  if (value instanceof Uint8Array || Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (isWireMap(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}

/** The `jobs` runner [salt/runners/jobs.py]. */

import {
  type CallContext,
  count,
  type FunctionTable,
  flag,
  ignored,
  type JobCache,
  type JobRecord,
  type JobReturn,
  MasterError,
  map,
  masterFunction,
  names,
  optional,
  required,
  returnerOf,
  text,
  withOutputter,
} from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { compileGlob } from '#template/python/fnmatch.ts';
import { askMinions, type MinionCalls } from '../minion-calls.ts';

/** What a job must be like to be listed; all that is given must hold. */
interface JobFilter {
  /** Globs, one of which means its function. */
  readonly functions?: readonly string[] | undefined;
  /** Globs, one of which means a word of its target. */
  readonly targets?: readonly string[] | undefined;
  /** One of these must be in its metadata. */
  readonly metadata?: WireMap | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/**
 * Makes the test of a filter.
 * @throws MasterError ERR_ARGS for a time that cannot be read
 */
function jobTest(filter: JobFilter): (job: JobRecord) => boolean {
  const tests: ((job: JobRecord) => boolean)[] = [];
  const { functions, targets, metadata } = filter;
  if (functions !== undefined) tests.push(anyMatches(functions, ({ fun }) => [fun].flat()));
  if (targets !== undefined) tests.push(anyMatches(targets, ({ tgt }) => [tgt].flat()));
  if (metadata !== undefined) tests.push((job) => sharesEntry(metadata, job.metadata));
  if (filter.from !== undefined) tests.push(startsAt(filter.from, (at, limit) => at >= limit));
  if (filter.to !== undefined) tests.push(startsAt(filter.to, (at, limit) => at <= limit));
  return (job) => tests.every((test) => test(job));
}

function anyMatches(
  globs: readonly string[],
  textsOf: (job: JobRecord) => readonly string[],
): (job: JobRecord) => boolean {
  const matches = globs.map((glob) => compileGlob(glob));
  return (job) => textsOf(job).some((text) => matches.some((match) => match(text)));
}

function sharesEntry(wanted: WireMap, metadata: WireMap = {}): boolean {
  return Object.entries(wanted).some(
    ([name, value]) => Object.hasOwn(metadata, name) && isSame(metadata[name], value),
  );
}

function isSame(left: WireValue | undefined, right: WireValue): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right);
}

/** Compares with the digits of the jid, so that both are the master's time. */
function startsAt(
  time: string,
  holds: (at: string, limit: string) => boolean,
): (job: JobRecord) => boolean {
  const limit = toDigits(time);
  return ({ jid }) => holds(jid.slice(0, 20), limit);
}

const forms: readonly RegExp[] = [
  // 2026-11-21 15:48:26.5, with or without its end; 2026/11/21; 20261121
  /^(\d{4})[-/]?(\d\d)[-/]?(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/,
  // 2026, Nov 21 15:48:26.5, as jobs are shown
  /^(\d{4}),? ([A-Z][a-z]{2}) (\d{1,2})(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/,
  // A jid, or its beginning
  /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{0,6})$/,
];
const monthLetters = 'JanFebMarAprMayJunJulAugSepOctNovDec';

function toDigits(time: string): string {
  const match = forms.map((form) => form.exec(time.trim())).find((found) => found !== null);
  if (match === undefined) {
    const expected = 'for instance "2026-11-21 15:48:26" or "2026, Nov 21 15:48"';
    throw new MasterError('ERR_ARGS', `a time cannot be read; expected ${expected}`);
  }
  const [, year = '', month = '', day = '', hour = '', minute = '', second = '', rest = ''] = match;
  const number = /^\d/.test(month)
    ? month
    : String(monthLetters.indexOf(month) / 3 + 1).padStart(2, '0');
  const clock = [hour, minute, second].map((part) => part.padStart(2, '0')).join('');
  return year + number + day.padStart(2, '0') + clock + rest.padEnd(6, '0');
}

// Jobs in the form of Salt's runners [salt/utils/jid.py, salt/runners/jobs.py].

/** What is given for a job that is not kept. */
const unknownJob: WireMap = { Error: 'Cannot contact returner or no job with this jid' };

/** A job as `list_jobs` shows it. */
function describeJob(record: JobRecord): WireMap {
  const { fun, arg, tgt, tgtType, user, metadata } = record;
  return {
    Function: typeof fun === 'string' ? fun : [...fun],
    Arguments: [...arg],
    Target: typeof tgt === 'string' ? tgt : [...tgt],
    'Target-type': tgtType,
    User: user,
    ...(metadata === undefined ? {} : { Metadata: metadata }),
    StartTime: startTime(record.jid),
  };
}

/** A job as `list_job` and `print_job` show it. */
function describeJobInFull(
  jid: string,
  record: JobRecord | undefined,
  returns: readonly JobReturn[],
): WireMap {
  const { StartTime: _time, ...job } = record === undefined ? unknownJob : describeJob(record);
  const minions = record === undefined ? {} : { Minions: [...record.minions].sort() };
  const result: WireMap = Object.create(null);
  for (const one of returns) result[returnerOf(one)] = describeReturn(one);
  return { ...job, ...minions, StartTime: startTime(jid), Result: result };
}

/** `2026, Nov 21 15:48:26.914988`, from the jid; empty where it tells no time. */
function startTime(jid: string): string {
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{6})/.exec(jid);
  if (parts === null) return '';
  const [, year, month, day, hour, minute, second, fraction] = parts;
  return `${year}, ${months[Number(month) - 1] ?? ''} ${day} ${hour}:${minute}:${second}.${fraction}`;
}

const months: readonly string[] = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

function describeReturn({ return: value, retcode, success, out }: JobReturn): WireMap {
  return {
    return: value,
    retcode,
    success,
    ...(out === undefined ? {} : { out }),
  };
}

export interface JobsRunnerDeps extends MinionCalls {
  readonly cache: JobCache;
}

/** Jobs that are looked through at most. */
const maxJobs = 1_000_000;

/** What every function takes that Salt has it for and that changes nothing here. */
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
      summary: 'The jobs that are kept, by jid; with filters those that all of them mean.',
      parameters: { ...sources, outputter: optional(text), ...filters, ...progress },
      call: async ({ outputter, ...filter }) => {
        const jobs = await findJobs(parts, {
          functions: filter.search_function,
          targets: filter.search_target,
          metadata: filter.search_metadata,
          from: filter.start_time,
          to: filter.end_time,
        });
        return withOutputter(outputter, byJid(jobs));
      },
    }),
    'jobs.list_jobs_filter': masterFunction({
      summary: 'The latest jobs, so many, the oldest of them first; without find_job by default.',
      parameters: {
        count: required(count),
        filter_find_job: optional(flag, true),
        ...sources,
        outputter: optional(text),
        ...progress,
      },
      call: async ({ count: limit, filter_find_job: isFiltered, outputter }) => {
        const jobs = await findJobs(parts, {}, (job) => !isFiltered || !isFindJob(job), limit);
        const listed = jobs.reverse().map((job) => ({ ...describeJob(job), JID: job.jid }));
        return withOutputter(outputter, listed);
      },
    }),
    'jobs.list_job': masterFunction({
      summary: 'One job with what came back.',
      parameters: { jid: required(text), ...sources, ...progress },
      call: async ({ jid }) => ({ jid, ...(await fullJob(parts, jid)) }),
    }),
    'jobs.print_job': masterFunction({
      summary: 'One job with what came back, under its jid.',
      parameters: { jid: required(text), ...sources },
      call: async ({ jid }) => new Map([[jid, await fullJob(parts, jid)]]),
    }),
    'jobs.lookup_jid': masterFunction({
      summary: 'What came back for a job; with missing=True also who did not answer.',
      parameters: {
        jid: required(text),
        ...sources,
        returned: optional(flag, true),
        missing: optional(flag, false),
        ...progress,
      },
      call: ({ jid, returned, missing }) => lookUp(parts, jid, { returned, missing }),
    }),
    'jobs.exit_success': masterFunction({
      summary: 'For each minion of a job whether it returned something that counts as true.',
      parameters: { jid: required(text), ...sources },
      call: async ({ jid }) => {
        const { record, returns } = await readJob(parts, jid);
        const verdicts: WireMap = Object.create(null);
        for (const minion of record?.minions ?? []) verdicts[minion] = false;
        for (const one of returns) verdicts[one.minion] ??= false;
        for (const one of returns) if (isTruthy(one.return)) verdicts[one.minion] = true;
        return verdicts;
      },
    }),
    'jobs.last_run': masterFunction({
      summary: 'The latest job with what came back; with filters the latest that they mean.',
      parameters: {
        ...sources,
        outputter: ignored,
        metadata: optional(map),
        function: optional(names),
        target: optional(names),
        ...progress,
      },
      call: async ({ metadata, function: functions, target: targets }) => {
        const [latest] = await findJobs(parts, { metadata, functions, targets }, () => true, 1);
        if (latest === undefined) return false;
        return new Map([[latest.jid, await fullJob(parts, latest.jid)]]);
      },
    }),
    'jobs.active': masterFunction({
      summary: 'What minions say that they are at, by jid.',
      parameters: progress,
      call: (_values, context) => activeJobs(parts, context),
    }),
  };
}

/** The latest first. */
async function findJobs(
  { cache }: JobsRunnerDeps,
  filter: JobFilter,
  isWanted: (job: JobRecord) => boolean = () => true,
  limit = maxJobs,
): Promise<JobRecord[]> {
  const test = jobTest(filter);
  const found: JobRecord[] = [];
  if (limit === 0) return found;
  for await (const job of cache.records(maxJobs)) {
    if (!test(job) || !isWanted(job)) continue;
    found.push(job);
    if (found.length === limit) break;
  }
  return found;
}

/** Jids are digits, which a plain object would put into an order of its own. */
function byJid(jobs: readonly JobRecord[]): Map<WireValue, WireValue> {
  return new Map([...jobs].reverse().map((job) => [job.jid, describeJob(job)]));
}

function isFindJob({ fun }: JobRecord): boolean {
  return fun === 'saltutil.find_job';
}

interface KeptJob {
  readonly record: JobRecord | undefined;
  readonly returns: readonly JobReturn[];
}

async function readJob({ cache }: JobsRunnerDeps, jid: string): Promise<KeptJob> {
  const record = jid === '' ? undefined : await cache.record(jid);
  const returns: JobReturn[] = [];
  if (record !== undefined) for await (const one of cache.returns(jid)) returns.push(one);
  return { record, returns };
}

async function fullJob(parts: JobsRunnerDeps, jid: string): Promise<WireMap> {
  const { record, returns } = await readJob(parts, jid);
  return describeJobInFull(jid, record, returns);
}

async function lookUp(
  parts: JobsRunnerDeps,
  jid: string,
  { returned, missing }: { readonly returned: boolean; readonly missing: boolean },
): Promise<WireValue> {
  const { record, returns } = await readJob(parts, jid);
  const found: WireMap = Object.create(null);
  if (returned) for (const one of returns) found[one.minion] = one.return;
  const answered = new Set(returns.map(({ minion }) => minion));
  for (const minion of missing ? (record?.minions ?? []) : []) {
    if (!answered.has(minion)) found[minion] = 'Minion did not return';
  }
  return withOutputter(returns[0]?.out, found);
}

async function activeJobs(parts: JobsRunnerDeps, context: CallContext): Promise<WireValue> {
  const jobs = new Map<string, WireMap & { Running: WireValue[]; Returned: WireValue[] }>();
  const request = { tgt: '*', fun: 'saltutil.running' };
  const { returns } = await askMinions(parts, request, context);
  for (const { minion, return: running } of returns) {
    for (const job of Array.isArray(running) ? running.filter(isWireMap) : []) {
      const jid = typeof job.jid === 'string' ? job.jid : '';
      const known = jobs.get(jid) ?? (await activeJob(parts, jid, job));
      known.Running.push({ [minion]: job.pid ?? null });
      jobs.set(jid, known);
    }
  }
  return new Map<WireValue, WireValue>([...jobs].sort());
}

async function activeJob(
  parts: JobsRunnerDeps,
  jid: string,
  told: WireMap,
): Promise<WireMap & { Running: WireValue[]; Returned: WireValue[] }> {
  const { returns } = await readJob(parts, jid);
  const { fun = 'unknown-function', arg, tgt = 'unknown-target', tgt_type = 'list', user } = told;
  return {
    Function: fun,
    Arguments: Array.isArray(arg) ? arg : [],
    Target: tgt,
    'Target-type': tgt_type,
    User: user ?? 'root',
    StartTime: startTime(jid),
    Running: [],
    Returned: returns.map(({ minion }) => minion),
  };
}

/** Python's truth. */
function isTruthy(value: WireValue): boolean {
  if (value instanceof Uint8Array || Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (isWireMap(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}

/** Filters of the jobs runner [salt/runners/jobs.py list_jobs]. */

import { type Jobs, MasterError } from '#master';
import { pythonStrInSlices, type WireMap, type WireValue } from '#minion-protocol';
import type { WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';

type JobRecord = NonNullable<Awaited<ReturnType<Jobs['cache']['record']>>>;

/** Conditions that a job must satisfy to be listed. If several are given, all must hold. */
export interface JobFilter {
  /** Globs. At least one must match a function of the job. */
  readonly functions?: readonly string[] | undefined;
  /** Globs. At least one must match the job's target or an element of its target list. */
  readonly targets?: readonly string[] | undefined;
  /** Entries of metadata. The metadata of the job must contain at least one of them. */
  readonly metadata?: WireMap | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

type JobTest = (job: JobRecord) => boolean | Promise<boolean>;

/**
 * Compiles a filter to a predicate. The compilation and the predicate count their work in `budget`,
 * and regularly let other work run.
 * @throws MasterError ERR_ARGS for an invalid time
 * @throws WorkLimitExceeded if a glob takes too much work; the predicate throws it too
 */
export async function jobTest(
  filter: JobFilter,
  budget: WorkBudget,
): Promise<(job: JobRecord) => Promise<boolean>> {
  const tests: JobTest[] = [];
  const { functions, targets, metadata } = filter;
  if (functions !== undefined) {
    tests.push(await anyMatches(functions, budget, ({ fun }) => [fun].flat()));
  }
  if (targets !== undefined) {
    tests.push(await anyMatches(targets, budget, ({ tgt }) => [tgt].flat()));
  }
  if (metadata !== undefined) tests.push(sharesEntry(metadata, budget));
  if (filter.from !== undefined) tests.push(startsAt(filter.from, (at, limit) => at >= limit));
  if (filter.to !== undefined) tests.push(startsAt(filter.to, (at, limit) => at <= limit));
  return async (job) => {
    for (const test of tests) if (!(await test(job))) return false;
    return true;
  };
}

async function anyMatches(
  globs: readonly string[],
  budget: WorkBudget,
  textsOf: (job: JobRecord) => readonly string[],
): Promise<JobTest> {
  const matches: ((text: string) => boolean)[] = [];
  for (const glob of globs) {
    matches.push(compileGlob(glob, budget));
    if (budget.isSliceOver) await budget.giveWay();
  }
  return async (job) => {
    for (const text of textsOf(job)) {
      for (const match of matches) {
        // A glob without wildcards counts no steps itself.
        budget.spend('the search for jobs', 1);
        if (match(text)) return true;
        if (budget.isSliceOver) await budget.giveWay();
      }
    }
    return false;
  };
}

function sharesEntry(metadata: WireMap, budget: WorkBudget): JobTest {
  const wanted = Object.entries(metadata).map(([name, value]) => ({
    name,
    isSame: sameAs(value, budget),
  }));
  return async ({ metadata: own = {} }) => {
    for (const { name, isSame } of wanted) {
      budget.spend('the search for metadata', 4);
      const value = Object.hasOwn(own, name) ? own[name] : undefined;
      if (value !== undefined && (await isSame(value))) return true;
      if (budget.isSliceOver) await budget.giveWay();
    }
    return false;
  };
}

/** Returns a function that tests whether a value and `right` have the same text in Python. */
function sameAs(right: WireValue, budget: WorkBudget): (left: WireValue) => Promise<boolean> {
  let wanted: string | undefined;
  return async (left) => {
    if (left === right) return true;
    // In a list, a text is quoted, so that it differs from a number. JSON has no form for large
    // integers and for maps whose keys are not text.
    const text = await pythonStrInSlices([left], budget);
    wanted ??= await pythonStrInSlices([right], budget);
    return text === wanted;
  };
}

/**
 * Returns a predicate for jobs by their start time, which is part of the jid. The start time and
 * `time` are in the master's local time.
 * @param holds - compares the digits of the start time (`at`) with the digits of `time` (`limit`)
 */
function startsAt(time: string, holds: (at: string, limit: string) => boolean): JobTest {
  const limit = toDigits(time);
  return ({ jid }) => holds(jid.slice(0, 20), limit);
}

const forms: readonly RegExp[] = [
  // 2026-11-21 15:48:26.5, optionally shortened; 2026/11/21; 20261121
  /^(\d{4})[-/]?(\d\d)[-/]?(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/,
  // 2026, Nov 21 15:48:26.5, the format in which jobs are shown
  /^(\d{4}),? ([A-Z][a-z]{2}) (\d{1,2})(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/,
  // A jid or its beginning
  /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{0,6})$/,
];
const monthLetters = 'JanFebMarAprMayJunJulAugSepOctNovDec';

function toDigits(time: string): string {
  const match = forms.map((form) => form.exec(time.trim())).find((found) => found !== null);
  if (match === undefined) {
    const expected = 'use for example "2026-11-21 15:48:26" or "2026, Nov 21 15:48"';
    throw new MasterError('ERR_ARGS', `invalid time; ${expected}`);
  }
  const [, year = '', month = '', day = '', hour = '', minute = '', second = '', rest = ''] = match;
  const number = /^\d/.test(month)
    ? month
    : String(monthLetters.indexOf(month) / 3 + 1).padStart(2, '0');
  const clock = [hour, minute, second].map((part) => part.padStart(2, '0')).join('');
  return year + number + day.padStart(2, '0') + clock + rest.padEnd(6, '0');
}

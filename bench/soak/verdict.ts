/** Formats the result of a soak test, and returns the list of failed checks. */
import { growthPerMinute, type MemorySample, mean, warm, warmUpSeconds } from './memory.ts';
import type { SoakResult } from './soak.ts';

/**
 * Growth of memory, in megabytes per minute, above which the check fails. The reserves of V8 and of
 * the allocator vary by about ten megabytes. Over nine minutes, this is a slope far below the
 * limit.
 */
const flatBelow = 2;
/** Minimum share of the load that must have been produced. */
const enough = 0.95;
/**
 * Minimum time after the warm-up before the slope is checked, in seconds. Before that, the reserves
 * of V8 outweigh a leak.
 */
const judgedSeconds = 240;

/** Returns the failed checks. Empty if all checks passed. */
export function complaints(result: SoakResult): string[] {
  const { load, seconds, counts, jobs, deleted, failures } = result;
  const strangers = Object.keys(counts.cut).filter((id) => !deleted.has(id));
  const growth = isJudged(result) ? warmGrowth(result) : 0;
  return [
    ...failures,
    ...shortfall('events', counts.events, load.eventsPerSecond * seconds),
    ...shortfall('jobs', jobs.begun, load.jobsPerSecond * seconds),
    ...(counts.waiting > 0 ? [`${counts.waiting} requests unanswered`] : []),
    ...(counts.wrong > 0 ? [`${counts.wrong} replies that do not match their requests`] : []),
    ...(strangers.length > 0
      ? [
          `the master closed connections of ${strangers.join()}, although their keys were not deleted`,
        ]
      : []),
    ...(jobs.finished < jobs.begun ? [`${jobs.begun - jobs.finished} jobs did not end`] : []),
    ...(growth > flatBelow ? [`memory grew by ${growth.toFixed(1)} MB a minute`] : []),
  ];
}

/**
 * Returns a failed check if less load was produced than requested. The run then proves nothing
 * about the requested load.
 */
function shortfall(what: string, done: number, due: number): string[] {
  return done < due * enough ? [`the machine was too slow: ${done} of ${due} ${what}`] : [];
}

/** Returns the figures of a whole run as lines of text. */
export function summary(result: SoakResult): string[] {
  const { counts, jobs, seconds, deletions, counters } = result;
  const cut = Object.values(counts.cut).reduce((sum, count) => sum + count, 0);
  const silent = Object.values(jobs.silent).reduce((sum, count) => sum + count, 0);
  const growth = warmGrowth(result);
  return [
    `requests                     ${counts.sent}`,
    `unanswered                   ${counts.waiting}`,
    `refused (bad load)           ${counts.refused}`,
    `closed after a key deletion   ${cut}`,
    `closed by the minion itself   ${counts.left}`,
    `longest answer               ${counts.longestAnswerMs.toFixed(0)} ms`,
    `events acknowledged          ${counts.events} (${rate(counts.events, seconds)}/s)`,
    `jobs                         ${jobs.finished} of ${jobs.begun} (${rate(jobs.begun, seconds)}/s)`,
    `returns                      ${jobs.answers}; no answer ${silent}`,
    `keys deleted                 ${deletions}`,
    `reconnections, sign-ins      ${counts.reconnects}, ${counts.signIns}`,
    `counters of the master        ${JSON.stringify(counters)}`,
    `memory since the first minute ${growth >= 0 ? '+' : ''}${growth.toFixed(2)} MB a minute`,
    ...(isJudged(result)
      ? []
      : [`  memory growth was not judged: this requires ${warmUpSeconds + judgedSeconds} s`]),
  ];
}

/** Returns a line with the memory at each half minute. */
export function memoryLine(samples: readonly MemorySample[]): string {
  const last = samples.at(-1)?.at ?? 0;
  const figure = (name: 'resident' | 'anonymous' | 'heap'): string =>
    mean(samples.map((sample) => sample[name]))
      .toFixed(0)
      .padStart(5);
  return `${String(last).padStart(5)} s  resident ${figure('resident')}  without mapped files ${figure('anonymous')}  heap ${figure('heap')}  MB`;
}

function isJudged({ seconds }: SoakResult): boolean {
  return seconds >= warmUpSeconds + judgedSeconds;
}

function warmGrowth({ memory }: SoakResult): number {
  return growthPerMinute(warm(memory), 'anonymous');
}

function rate(count: number, seconds: number): string {
  return (count / seconds).toFixed(0);
}

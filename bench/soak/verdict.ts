/** What a soak showed, as lines for people and as a list of what is wrong. */
import { growthPerMinute, type MemorySample, mean, warm, warmUpSeconds } from './memory.ts';
import type { SoakResult } from './soak.ts';

/**
 * Megabytes a minute beyond which memory counts as growing. What V8 and the allocator keep in
 * reserve goes up and down by some ten megabytes; over nine minutes that is a slope well below.
 */
const flatBelow = 2;
/** What of the load must have been kept up. */
const enough = 0.95;
/** Seconds after the warm-up before a slope means anything: V8's reserves outweigh a leak until then. */
const judgedSeconds = 240;

/** What is not as it must be; empty: all is well. */
export function complaints(result: SoakResult): string[] {
  const { load, seconds, counts, jobs, deleted, failures } = result;
  const strangers = Object.keys(counts.cut).filter((id) => !deleted.has(id));
  const growth = isJudged(result) ? warmGrowth(result) : 0;
  return [
    ...failures,
    ...shortfall('events', counts.events, load.eventsPerSecond * seconds),
    ...shortfall('jobs', jobs.begun, load.jobsPerSecond * seconds),
    ...(counts.waiting > 0 ? [`${counts.waiting} requests unanswered`] : []),
    ...(counts.wrong > 0 ? [`${counts.wrong} answers that do not fit their requests`] : []),
    ...(strangers.length > 0
      ? [`the master ended connections of ${strangers.join()}, whose keys were not deleted`]
      : []),
    ...(jobs.finished < jobs.begun ? [`${jobs.begun - jobs.finished} jobs did not end`] : []),
    ...(growth > flatBelow ? [`memory grew by ${growth.toFixed(1)} MB a minute`] : []),
  ];
}

/** A run under less than the load that was asked for shows nothing of that load. */
function shortfall(what: string, done: number, due: number): string[] {
  return done < due * enough ? [`the machine kept up ${done} of ${due} ${what}`] : [];
}

/** The figures of a whole run. */
export function summary(result: SoakResult): string[] {
  const { counts, jobs, seconds, deletions, counters } = result;
  const cut = Object.values(counts.cut).reduce((sum, count) => sum + count, 0);
  const silent = Object.values(jobs.silent).reduce((sum, count) => sum + count, 0);
  const growth = warmGrowth(result);
  return [
    `requests                     ${counts.sent}`,
    `unanswered                   ${counts.waiting}`,
    `refused (bad load)           ${counts.refused}`,
    `cut off by a deletion        ${cut}`,
    `left by the minion itself    ${counts.left}`,
    `longest answer               ${counts.longestAnswerMs.toFixed(0)} ms`,
    `events acknowledged          ${counts.events} (${rate(counts.events, seconds)}/s)`,
    `jobs                         ${jobs.finished} of ${jobs.begun} (${rate(jobs.begun, seconds)}/s)`,
    `returns                      ${jobs.answers}; no answer ${silent}`,
    `keys deleted                 ${deletions}`,
    `reconnections, sign-ins      ${counts.reconnects}, ${counts.signIns}`,
    `counted by the master        ${JSON.stringify(counters)}`,
    `memory since the first minute ${growth >= 0 ? '+' : ''}${growth.toFixed(2)} MB a minute`,
    ...(isJudged(result) ? [] : [`  not judged: that takes ${warmUpSeconds + judgedSeconds} s`]),
  ];
}

/** One line for each half minute. */
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

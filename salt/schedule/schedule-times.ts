/**
 * Computes the times at which entries of the schedule are due. All times are in milliseconds since
 * 1970.
 */

import type { ClockTime, ScheduleEntry, ScheduleRange, ScheduleTrigger } from '#config';

/**
 * Returns the next time after `now` at which an entry is due, or `undefined` if there is none.
 * @param last - previous due time, possibly before a restart of the master
 */
export function nextTime(
  trigger: ScheduleTrigger,
  now: number,
  last: number | undefined,
): number | undefined {
  if (trigger.kind === 'interval') {
    // If the master was down at one or more due times, the job runs once after the start.
    return Math.max(now, (last ?? now) + trigger.seconds * 1000);
  }
  if (trigger.kind === 'cron') return trigger.cron.nextRun(new Date(now))?.getTime();
  const times = trigger.times.map((time) => nextClock(time, now));
  const coming = times.filter((time) => time !== undefined);
  return coming.length === 0 ? undefined : Math.min(...coming);
}

/** Whether an entry may run at this time (`range`, `after`, `until`). */
export function isAllowed({ range, after, until }: ScheduleEntry, now: number): boolean {
  if (after !== undefined && now <= today(after, now)) return false;
  if (until !== undefined && now >= today(until, now)) return false;
  return range === undefined || isWithin(range, now) !== range.isInverted;
}

function isWithin({ start, end }: ScheduleRange, now: number): boolean {
  const [from, to] = [today(start, now), today(end, now)];
  // The range spans midnight.
  if (to < from && !('at' in start)) return now >= from || now <= to;
  return now >= from && now <= to;
}

function today(time: ClockTime, now: number): number {
  if ('at' in time) return time.at;
  const day = new Date(now);
  return new Date(
    day.getFullYear(),
    day.getMonth(),
    day.getDate(),
    0,
    0,
    time.secondOfDay,
  ).getTime();
}

function nextClock(time: ClockTime, now: number): number | undefined {
  if ('at' in time) return time.at > now ? time.at : undefined;
  const day = new Date(now);
  for (let days = 0; days <= 7; days++) {
    const midnight = [day.getFullYear(), day.getMonth(), day.getDate() + days] as const;
    const at = new Date(...midnight, 0, 0, time.secondOfDay);
    const isDay = time.weekday === undefined || at.getDay() === time.weekday;
    if (isDay && at.getTime() > now) return at.getTime();
  }
  return undefined;
}

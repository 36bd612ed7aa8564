/** When an entry of the schedule is due. All times are milliseconds since 1970. */

import type { ClockTime, CronFields, ScheduleEntry, ScheduleRange, ScheduleTrigger } from '#config';

/** No cron expression waits longer for its next day: February 29th over a century. */
const maxSteps = 20_000;

/**
 * The first moment after `now`; `undefined`: none.
 * @param last when it was due last, also in an earlier run of the master
 */
export function nextTime(
  trigger: ScheduleTrigger,
  now: number,
  last: number | undefined,
): number | undefined {
  if (trigger.kind === 'interval') {
    // What came due while the master was away is done once.
    return Math.max(now, (last ?? now) + trigger.seconds * 1000);
  }
  if (trigger.kind === 'cron') return nextCron(trigger.fields, now);
  const times = trigger.times.map((time) => nextClock(time, now));
  const coming = times.filter((time) => time !== undefined);
  return coming.length === 0 ? undefined : Math.min(...coming);
}

/** Whether an entry that is due may run. */
export function isAllowed({ range, after, until }: ScheduleEntry, now: number): boolean {
  if (after !== undefined && now <= today(after, now)) return false;
  if (until !== undefined && now >= today(until, now)) return false;
  return range === undefined || isWithin(range, now) !== range.isInverted;
}

function isWithin({ start, end }: ScheduleRange, now: number): boolean {
  const [from, to] = [today(start, now), today(end, now)];
  // Over midnight.
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

function nextCron(fields: CronFields, now: number): number | undefined {
  const at = new Date(now);
  at.setSeconds(0, 0);
  at.setMinutes(at.getMinutes() + 1);
  for (let step = 0; step < maxSteps; step++) {
    if (!fields.months.has(at.getMonth() + 1)) at.setMonth(at.getMonth() + 1, 1);
    else if (!isDay(fields, at)) at.setDate(at.getDate() + 1);
    else if (fields.hours.has(at.getHours())) {
      if (fields.minutes.has(at.getMinutes())) return at.getTime();
      at.setMinutes(at.getMinutes() + 1);
      continue;
    } else {
      at.setHours(at.getHours() + 1, 0);
      continue;
    }
    at.setHours(0, 0);
  }
  return undefined;
}

function isDay({ days, weekdays, isEitherDay }: CronFields, at: Date): boolean {
  const [isOfMonth, isOfWeek] = [days.has(at.getDate()), weekdays.has(at.getDay())];
  return isEitherDay ? isOfMonth || isOfWeek : isOfMonth && isOfWeek;
}

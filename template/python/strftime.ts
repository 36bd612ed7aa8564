/** This module formats dates like Python's `strftime`. */

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months =
  'January February March April May June July August September October November December'.split(
    ' ',
  );

function pad(value: number, width = 2): string {
  return String(value).padStart(width, '0');
}

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}

/** Returns a date whose fields in UTC are the fields of the given date in local time. */
export function toLocal(date: Date): Date {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
}

function fromLocal(date: Date): Date {
  const day = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()] as const;
  return new Date(...day, date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds());
}

/**
 * Formats a date in UTC. As in glibc, `%-d` has no leading zero. Unknown directives are left
 * unchanged.
 */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)(.)/gs, (whole, flag: string, letter: string) => {
    const field = fields[letter]?.(date) ?? whole;
    return flag === '' ? field : field.replace(/^[0 ]+(?=\d)/, '');
  });
}

function weekday(date: Date): string {
  return days[date.getUTCDay()] ?? '';
}

function month(date: Date): string {
  return months[date.getUTCMonth()] ?? '';
}

function hour12(date: Date): number {
  return date.getUTCHours() % 12 || 12;
}

const fields: Readonly<Record<string, (date: Date) => string>> = {
  '%': () => '%',
  A: weekday,
  a: (date) => weekday(date).slice(0, 3),
  B: month,
  b: (date) => month(date).slice(0, 3),
  c: (date) => strftime(date, '%a %b %e %H:%M:%S %Y'),
  D: (date) => strftime(date, '%m/%d/%y'),
  d: (date) => pad(date.getUTCDate()),
  e: (date) => String(date.getUTCDate()).padStart(2, ' '),
  F: (date) => strftime(date, '%Y-%m-%d'),
  f: (date) => pad(date.getUTCMilliseconds() * 1000, 6),
  H: (date) => pad(date.getUTCHours()),
  h: (date) => month(date).slice(0, 3),
  I: (date) => pad(hour12(date)),
  j: (date) => pad(dayOfYear(date), 3),
  M: (date) => pad(date.getUTCMinutes()),
  m: (date) => pad(date.getUTCMonth() + 1),
  n: () => '\n',
  p: (date) => (date.getUTCHours() < 12 ? 'AM' : 'PM'),
  S: (date) => pad(date.getUTCSeconds()),
  s: (date) => String(Math.floor(fromLocal(date).getTime() / 1000)),
  T: (date) => strftime(date, '%H:%M:%S'),
  t: () => '\t',
  U: (date) => pad(Math.floor((dayOfYear(date) + 6 - date.getUTCDay()) / 7)),
  u: (date) => String(date.getUTCDay() || 7),
  W: (date) => pad(Math.floor((dayOfYear(date) + 6 - ((date.getUTCDay() + 6) % 7)) / 7)),
  w: (date) => String(date.getUTCDay()),
  X: (date) => strftime(date, '%H:%M:%S'),
  x: (date) => strftime(date, '%m/%d/%y'),
  Y: (date) => String(date.getUTCFullYear()),
  y: (date) => pad(date.getUTCFullYear() % 100),
  Z: () => '',
  z: () => '',
};

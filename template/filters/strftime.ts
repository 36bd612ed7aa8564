/** `strftime` over dates that a template can write [salt/utils/dateutils.py]. */
import { Raised, valueError } from '../python/raise.ts';
import { str } from '../python/repr.ts';
import { Float, isInteger, isText, textOf, type Value } from '../python/values.ts';
import type { FilterContext } from './definition.ts';

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months =
  'January February March April May June July August September October November December'.split(
    ' ',
  );
const dateForm =
  /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(?:Z|\+00:?00)?$/;

/** `|strftime`: nothing, a number of seconds, or a text in ISO 8601; in UTC. @throws Raised */
export function formatTime(
  context: FilterContext,
  date: Value = null,
  format: Value = '%Y-%m-%d',
): Value {
  return strftime(readDate(context, date), str(format));
}

/** @throws Raised ValueError */
function readDate(context: FilterContext, date: Value): Date {
  if (date === null || date === '' || date === 0) return context.now();
  if (isInteger(date)) return new Date(Number(date) * 1000);
  if (date instanceof Float) return new Date(date.value * 1000);
  if (!isText(date)) throw new Raised('TypeError', 'a date must be text or a number');
  const text = textOf(date).trim();
  if (/^\d+(\.\d+)?$/.test(text) && text.length > 8) return new Date(Number(text) * 1000);
  const match = dateForm.exec(text);
  if (match === null) throw valueError('the text is not a date');
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  return new Date(Date.UTC(year, month - 1, day, hour, minute, second));
}

function pad(value: number, width = 2): string {
  return String(value).padStart(width, '0');
}

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}

function strftime(date: Date, format: string): string {
  return format.replace(/%(.)/gs, (whole, letter: string) => fields[letter]?.(date) ?? whole);
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
  s: (date) => String(Math.floor(date.getTime() / 1000)),
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

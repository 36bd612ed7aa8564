/** Salt's option `schedule`: runners and jobs that the master starts by the clock. */

import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { ConfigError, type ConfigWarning, placeOf } from './config-error.ts';
import {
  entriesOf,
  type OptionKind,
  originOfSetting,
  type Settings,
  toPlain,
} from './option-kinds.ts';

/** When an entry is due. */
export type ScheduleTrigger =
  | { readonly kind: 'interval'; readonly seconds: number }
  | { readonly kind: 'cron'; readonly fields: CronFields }
  | { readonly kind: 'when'; readonly times: readonly ClockTime[] };

/** The numbers that each field of a cron expression means. */
export interface CronFields {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  /** 0 is Sunday. */
  readonly weekdays: ReadonlySet<number>;
  /** With both a day of the month and one of the week, either will do. */
  readonly isEitherDay: boolean;
}

/** A moment, or a time of every day or of a day of the week; local time. */
export type ClockTime =
  | { readonly at: number }
  | { readonly secondOfDay: number; readonly weekday?: number };

/** A span of the day, or between two moments. */
export interface ScheduleRange {
  readonly start: ClockTime;
  readonly end: ClockTime;
  readonly isInverted: boolean;
}

/** One entry. */
export interface ScheduleEntry {
  readonly name: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
  /** Minions that get a job; without one it is a runner. */
  readonly target:
    | { readonly tgt: string | readonly string[]; readonly tgtType: string }
    | undefined;
  readonly trigger: ScheduleTrigger;
  /** Seconds that it is put off by chance. */
  readonly splay: { readonly start: number; readonly end: number };
  readonly maxRunning: number;
  /** `jid_include: false`: `maxrunning` does not count it. */
  readonly isCounted: boolean;
  /** `return_job` */
  readonly isKept: boolean;
  readonly runsOnStart: boolean;
  readonly range: ScheduleRange | undefined;
  readonly after: ClockTime | undefined;
  readonly until: ClockTime | undefined;
  readonly metadata: WireMap | undefined;
}

/** Any map: {@link readSchedule} reads it. */
export const scheduleMap: OptionKind<WireMap> = {
  expected: 'a map of names to entries',
  isPath: false,
  parse: (value) => {
    const entries = entriesOf(value);
    // What a file can hold is made of Salt's values.
    return entries && (Object.fromEntries(entries) as WireMap);
  },
};

const units = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 } as const;
const known: ReadonlySet<string> = new Set([
  ...Object.keys(units),
  ...['function', 'args', 'kwargs', 'tgt', 'tgt_type', 'cron', 'when', 'once', 'splay'],
  ...['maxrunning', 'jid_include', 'return_job', 'run_on_start', 'range', 'after', 'until'],
  ...['enabled', 'metadata', 'name'],
]);

class ScheduleProblem extends Error {}

/** The entries that are enabled. @throws ConfigError ERR_OPTION_TYPE that names the entry */
export function readSchedule(schedule: WireMap, settings: Settings = new Map()): ScheduleEntry[] {
  if (schedule.enabled === false) return [];
  const entries = Object.entries(schedule).filter(([name]) => name !== 'enabled');
  return entries.flatMap(([name, value]) => {
    try {
      const given = new Map(entriesOf(value) ?? fail('expected a map'));
      return given.get('enabled') === false ? [] : [readEntry(name, given)];
    } catch (error) {
      if (!(error instanceof ScheduleProblem)) throw error;
      const origin = originOfSetting(settings, 'schedule');
      throw new ConfigError('ERR_OPTION_TYPE', origin, `${name}: ${error.message}`);
    }
  });
}

/** One for each member of an entry that has no effect. */
export function warnOfSchedule(settings: Settings): ConfigWarning[] {
  const setting = settings.get('schedule');
  if (setting === undefined) return [];
  return (entriesOf(setting.value) ?? []).flatMap(([name, entry]) =>
    (entriesOf(entry) ?? [])
      .filter(([member]) => !known.has(member))
      .map(([member]) => ({
        kind: 'not-served' as const,
        ...setting.origin,
        message: `${placeOf(setting.origin)}: schedule: ${name}: ${member} has no effect in the master`,
      })),
  );
}

function fail(problem: string): never {
  throw new ScheduleProblem(problem);
}

function readEntry(name: string, given: ReadonlyMap<string, unknown>): ScheduleEntry {
  const fun = given.get('function');
  if (typeof fun !== 'string' || !/^\w+\.\w+$/.test(fun)) {
    fail('function: expected module.function');
  }
  const args = toPlain(given.get('args') ?? []);
  const kwargs = toPlain(given.get('kwargs') ?? {});
  const range = new Map(entriesOf(given.get('range') ?? {}) ?? fail('range: expected a map'));
  return {
    name,
    fun: String(fun),
    // What a file can hold is made of Salt's values.
    arg: (Array.isArray(args) ? args : [args]) as WireValue[],
    kwarg: (entriesOf(kwargs) === undefined ? fail('kwargs: expected a map') : kwargs) as WireMap,
    target: given.has('tgt')
      ? { tgt: readTarget(given.get('tgt')), tgtType: String(given.get('tgt_type') ?? 'glob') }
      : undefined,
    trigger: readTrigger(given),
    splay: readSplay(given.get('splay')),
    maxRunning: readCount(given.get('maxrunning')),
    isCounted: given.get('jid_include') !== false,
    isKept: given.get('return_job') !== false,
    runsOnStart: given.get('run_on_start') === true,
    range:
      range.size === 0
        ? undefined
        : {
            start: readTime('range: start', range.get('start')),
            end: readTime('range: end', range.get('end')),
            isInverted: range.get('invert') === true,
          },
    after: given.has('after') ? readTime('after', given.get('after')) : undefined,
    until: given.has('until') ? readTime('until', given.get('until')) : undefined,
    metadata: readMetadata(given.get('metadata')),
  };
}

function readTarget(value: unknown): string | readonly string[] {
  if (Array.isArray(value) && value.every((id) => typeof id === 'string')) return value;
  return typeof value === 'string' && value !== '' ? value : fail('tgt: expected a text or a list');
}

function readMetadata(value: unknown): WireMap | undefined {
  const entries = value === undefined ? undefined : entriesOf(value);
  if (value !== undefined && entries === undefined) fail('metadata: expected a map');
  return entries && (Object.fromEntries(entries) as WireMap);
}

function readCount(value: unknown): number {
  if (value === undefined) return 1;
  const isCount = typeof value === 'number' && Number.isInteger(value) && value > 0;
  return isCount ? value : fail('maxrunning: expected a whole number, 1 or more');
}

function readSplay(value: unknown): ScheduleEntry['splay'] {
  if (value === undefined) return { start: 0, end: 0 };
  if (typeof value === 'number' && value >= 0) return { start: 0, end: value };
  const map = new Map(entriesOf(value) ?? []);
  const [start, end] = [map.get('start') ?? 0, map.get('end')];
  const isRange = typeof start === 'number' && typeof end === 'number' && start <= end;
  return isRange && start >= 0 ? { start, end } : fail('splay: expected seconds, or start and end');
}

function readTrigger(given: ReadonlyMap<string, unknown>): ScheduleTrigger {
  const interval = Object.entries(units).filter(([unit]) => given.has(unit));
  const others = ['cron', 'when', 'once'].filter((name) => given.has(name));
  if (others.length + Math.min(interval.length, 1) !== 1) {
    fail('expected one of seconds, minutes, hours and days together, cron, when, or once');
  }
  if (interval.length > 0) {
    const seconds = interval.reduce((sum, [unit, factor]) => {
      const value = given.get(unit);
      const isNumber = typeof value === 'number' && value >= 0;
      return sum + (isNumber ? value * factor : fail(`${unit}: expected a number`));
    }, 0);
    return seconds >= 1
      ? { kind: 'interval', seconds }
      : fail('the interval: expected 1 s or more');
  }
  const cron = given.get('cron');
  if (cron !== undefined) return { kind: 'cron', fields: readCron(String(cron)) };
  const times = [given.get('when') ?? given.get('once')].flat();
  return { kind: 'when', times: times.map((time) => readTime('when', time)) };
}

const weekdayNames = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const monthNames = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');

/** `5:00pm`, `17:00`, `Monday 5:00pm`, or a date with a time, in the forms of ISO 8601. */
function readTime(name: string, value: unknown): ClockTime {
  const text = value instanceof Date ? value.toISOString() : String(value ?? '');
  if (/^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?$/.test(text)) {
    const at = Date.parse(text.length === 10 ? `${text}T00:00` : text.replace(' ', 'T'));
    if (Number.isFinite(at)) return { at };
  }
  const form = /^(?:([a-z]+)\s+)?(\d{1,2})(?::(\d\d))?(?::(\d\d))?\s*(am|pm)?$/i;
  const [, day, hour = '', minute = '0', second = '0', half] = form.exec(text.trim()) ?? [];
  const weekday = day === undefined ? undefined : weekdayOf(day);
  const isTwelve = half !== undefined;
  const hours = (Number(hour) % (isTwelve ? 12 : 24)) + (half?.toLowerCase() === 'pm' ? 12 : 0);
  const isTime =
    hour !== '' &&
    (isTwelve || text.includes(':')) &&
    Number(hour) <= (isTwelve ? 12 : 23) &&
    Number(minute) < 60 &&
    Number(second) < 60;
  if (!isTime || weekday === -1) {
    fail(`${name}: expected a time (5:00pm, Monday 17:00, 2026-01-31T17:00:00)`);
  }
  const secondOfDay = hours * 3600 + Number(minute) * 60 + Number(second);
  return weekday === undefined ? { secondOfDay } : { secondOfDay, weekday };
}

function weekdayOf(name: string): number {
  const lower = name.toLowerCase();
  return lower.length < 3 ? -1 : weekdayNames.findIndex((weekday) => weekday.startsWith(lower));
}

/** Five fields, with `*`, lists, ranges, steps and names. */
function readCron(text: string): CronFields {
  const shortcuts: Readonly<Record<string, string>> = {
    '@yearly': '0 0 1 1 *',
    '@monthly': '0 0 1 * *',
    '@weekly': '0 0 * * 0',
    '@daily': '0 0 * * *',
    '@hourly': '0 * * * *',
  };
  const fields = (shortcuts[text.trim()] ?? text).trim().split(/\s+/);
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  if (fields.length !== 5) fail('cron: expected five fields');
  const days = weekdayNames.map((name) => name.slice(0, 3));
  return {
    minutes: readField(minute, 0, 59, []),
    hours: readField(hour, 0, 23, []),
    days: readField(day, 1, 31, []),
    months: readField(month, 1, 12, monthNames),
    weekdays: new Set([...readField(weekday, 0, 7, days)].map((value) => value % 7)),
    isEitherDay: !day.startsWith('*') && !weekday.startsWith('*'),
  };
}

/** @param names of the numbers from `first` on */
function readField(
  field: string,
  first: number,
  last: number,
  names: readonly string[],
): Set<number> {
  const values = new Set<number>();
  const numberOf = (text: string): number => {
    const index = names.indexOf(text.toLowerCase());
    return index >= 0 ? index + first : /^\d+$/.test(text) ? Number(text) : Number.NaN;
  };
  for (const part of field.split(',')) {
    const [range = '', step = '1'] = part.split('/');
    const [low = '', high] = range === '*' ? [String(first), String(last)] : range.split('-');
    const begin = numberOf(low);
    const end = high === undefined ? (part.includes('/') ? last : begin) : numberOf(high);
    const by = Number(step);
    const isField = begin >= first && end <= last && begin <= end && Number.isInteger(by) && by > 0;
    if (!isField) fail(`cron: ${field} is no field of ${first} to ${last}`);
    for (let value = begin; value <= end; value += by) values.add(value);
  }
  return values;
}

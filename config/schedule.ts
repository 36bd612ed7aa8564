/** Salt's option `schedule`: runners and jobs that the master starts at set times. */

import { Cron } from 'croner';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  ConfigError,
  type ConfigWarning,
  type OptionOrigin,
  placeOf,
  proposeName,
} from './config-error.ts';
import { custom } from './schema.ts';
import { entriesOf, isSettings, originOfSetting, type Settings, toPlain } from './settings.ts';

/** Rule for the times at which an entry runs. */
export type ScheduleTrigger =
  | { readonly kind: 'interval'; readonly seconds: number }
  | { readonly kind: 'cron'; readonly cron: Cron }
  | { readonly kind: 'when'; readonly times: readonly ClockTime[] };

/**
 * Point in time in milliseconds since 1970, or local time of day in seconds. With `weekday`, the
 * time of day applies only on this day (0 is Sunday), otherwise on every day.
 */
export type ClockTime =
  | { readonly at: number }
  | { readonly secondOfDay: number; readonly weekday?: number };

/**
 * Period in which an entry may run: a part of each day, or the time between two moments. If
 * `isInverted` is true, the entry may run only outside this period.
 */
export interface ScheduleRange {
  readonly start: ClockTime;
  readonly end: ClockTime;
  readonly isInverted: boolean;
}

/** One entry of the schedule. */
export interface ScheduleEntry {
  readonly name: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
  /** Minions that the job is published to. Absent if the entry runs a runner. */
  readonly target:
    | { readonly tgt: string | readonly string[]; readonly tgtType: string }
    | undefined;
  readonly trigger: ScheduleTrigger;
  /** Range of the random delay before a run, in seconds. If `end` is 0, there is no delay. */
  readonly splay: { readonly start: number; readonly end: number };
  readonly maxRunning: number;
  /** Whether runs of this entry count towards `maxrunning`. False for `jid_include: false`. */
  readonly isCounted: boolean;
  /** `return_job`: whether the result is stored in the job cache. */
  readonly isKept: boolean;
  readonly runsOnStart: boolean;
  readonly range: ScheduleRange | undefined;
  readonly after: ClockTime | undefined;
  readonly until: ClockTime | undefined;
  readonly metadata: WireMap | undefined;
}

/** Schema of `schedule`, which accepts any map. {@link readSchedule} validates the entries. */
export const scheduleMap = custom<WireMap>(
  {
    expected: 'a map of names to entries',
    accept: (value) => {
      const entries = entriesOf(value);
      // Files contain only values that Salt supports.
      return entries && (Object.fromEntries(entries) as WireMap);
    },
  },
  { type: 'object' },
);

const units = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 } as const;
const known: ReadonlySet<string> = new Set([
  ...Object.keys(units),
  ...['function', 'args', 'kwargs', 'tgt', 'tgt_type', 'cron', 'when', 'once', 'splay'],
  ...['maxrunning', 'jid_include', 'return_job', 'run_on_start', 'range', 'after', 'until'],
  ...['enabled', 'metadata', 'name'],
]);

class ScheduleProblem extends Error {}

/** Entry of the schedule, as written in a file. */
type Given = ReadonlyMap<string, unknown>;

/**
 * Returns the enabled entries.
 * @throws ConfigError ERR_OPTION_TYPE with all mistakes
 */
export function readSchedule(schedule: WireMap): readonly ScheduleEntry[] {
  const mistake = ConfigError.of(scheduleProblems(schedule, new Map()));
  if (mistake !== undefined) throw mistake;
  return readEntries(schedule).flatMap(([, entry]) => (Array.isArray(entry) ? [] : [entry]));
}

/** Returns all mistakes in enabled entries. */
export function scheduleProblems(schedule: WireMap, settings: Settings): readonly ConfigError[] {
  return readEntries(schedule).flatMap(([name, entry]) =>
    Array.isArray(entry) ? entry.map((problem) => refuseEntry(settings, name, problem)) : [],
  );
}

/** Reads the enabled entries, each with its name. Returns them with the problems found. */
function readEntries(
  schedule: WireMap,
): readonly (readonly [name: string, entry: ScheduleEntry | string[]])[] {
  if (schedule.enabled === false) return [];
  return Object.entries(schedule).flatMap(([name, value]) => {
    const members = entriesOf(value);
    const given = new Map(members);
    if (name === 'enabled' || given.get('enabled') === false) return [];
    return [[name, members === undefined ? ['expected a map'] : readEntry(name, given)] as const];
  });
}

/**
 * Returns the error for an entry.
 * @param problem - message. If it concerns a single option of the entry, it begins with the name of
 * the option
 */
function refuseEntry(settings: Settings, name: string, problem: string): ConfigError {
  const { file, line } = originWithin(settings, [name, problem.replace(/:.*/s, '')]);
  return new ConfigError('ERR_OPTION_TYPE', { file, line, key: `schedule:${name}` }, problem);
}

/**
 * Returns the location of the value at a path in the option `schedule`. If the path does not exist,
 * returns the location of its longest part that exists.
 */
function originWithin(settings: Settings, names: readonly string[]): OptionOrigin {
  let origin = originOfSetting(settings, 'schedule');
  let within = settings.get('schedule')?.value;
  for (const name of names) {
    const setting = isSettings(within) ? within.get(name) : undefined;
    if (setting === undefined) break;
    ({ origin, value: within } = setting);
  }
  return origin;
}

/** Returns a warning for each setting of a schedule entry that has no effect in the master. */
export function warnOfSchedule(settings: Settings): ConfigWarning[] {
  const setting = settings.get('schedule');
  if (setting === undefined) return [];
  return (entriesOf(setting.value) ?? []).flatMap(([name, entry]) =>
    (entriesOf(entry) ?? [])
      .filter(([member]) => !known.has(member))
      .map(([member]) => {
        const origin = originWithin(settings, [name, member]);
        const proposal = proposeName(member, [...known]);
        const text = `${member} has no effect in the master${proposal === undefined ? '' : `; ${proposal}`}`;
        const message = `${placeOf(origin)}: schedule: ${name}: ${text}`;
        return { kind: 'not-served' as const, ...origin, message };
      }),
  );
}

function fail(problem: string): never {
  throw new ScheduleProblem(problem);
}

type Members = Omit<ScheduleEntry, 'name'>;

/** Functions that read the members of an entry, by member. */
const readers: { readonly [Name in keyof Members]: (given: Given) => Members[Name] } = {
  fun: readFunction,
  arg: (given) => {
    const args = toPlain(given.get('args') ?? []);
    // Files contain only values that Salt supports.
    return (Array.isArray(args) ? args : [args]) as WireValue[];
  },
  kwarg: (given) => {
    const kwargs = toPlain(given.get('kwargs') ?? {});
    return (entriesOf(kwargs) === undefined ? fail('kwargs: expected a map') : kwargs) as WireMap;
  },
  target: (given) =>
    given.has('tgt')
      ? { tgt: readTarget(given.get('tgt')), tgtType: String(given.get('tgt_type') ?? 'glob') }
      : undefined,
  trigger: readTrigger,
  splay: (given) => readSplay(given.get('splay')),
  maxRunning: (given) => readCount(given.get('maxrunning')),
  isCounted: (given) => given.get('jid_include') !== false,
  isKept: (given) => given.get('return_job') !== false,
  runsOnStart: (given) => given.get('run_on_start') === true,
  range: readRange,
  after: (given) => (given.has('after') ? readTime('after', given.get('after')) : undefined),
  until: (given) => (given.has('until') ? readTime('until', given.get('until')) : undefined),
  metadata: (given) => readMetadata(given.get('metadata')),
};

/** Reads an entry. Returns the entry, or all its mistakes. */
function readEntry(name: string, given: Given): ScheduleEntry | string[] {
  const problems: string[] = [];
  const members = readMembers(readers, given, problems);
  // Without mistakes, every member of the table has been set.
  return problems.length > 0 ? problems : { name, ...(members as Members) };
}

function readMembers<T extends object>(
  table: { readonly [Name in keyof T]: (given: Given) => T[Name] },
  given: Given,
  problems: string[],
): Partial<T> {
  const members: Partial<T> = {};
  for (const name in table) {
    try {
      members[name] = table[name](given);
    } catch (error) {
      if (!(error instanceof ScheduleProblem)) throw error;
      problems.push(error.message);
    }
  }
  return members;
}

function readFunction(given: Given): string {
  const fun = given.get('function');
  const isFunction = typeof fun === 'string' && /^\w+\.\w+$/.test(fun);
  return isFunction ? fun : fail('function: expected module.function');
}

function readRange(given: Given): ScheduleRange | undefined {
  const range = new Map(entriesOf(given.get('range') ?? {}) ?? fail('range: expected a map'));
  if (range.size === 0) return undefined;
  return {
    start: readTime('range: start', range.get('start')),
    end: readTime('range: end', range.get('end')),
    isInverted: range.get('invert') === true,
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
    fail(
      'expected one of: an interval (seconds, minutes, hours and days together), cron, when, or once',
    );
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
  if (cron !== undefined) return { kind: 'cron', cron: readCron(String(cron)) };
  const times = [given.get('when') ?? given.get('once')].flat();
  return { kind: 'when', times: times.map((time) => readTime('when', time)) };
}

const weekdayNames = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/**
 * Reads a time of day (`5:00pm`, `17:00`, `Monday 5:00pm`), or a date in ISO 8601 form, with or
 * without a time.
 */
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

const shortcuts: ReadonlySet<string> = new Set([
  ...['@yearly', '@monthly', '@weekly', '@daily', '@hourly'],
]);

/** Ranges of the five fields of a cron expression, for error messages. */
const cronBounds = ['0 to 59', '0 to 23', '1 to 31', '1 to 12', '0 to 7'] as const;

/**
 * Reads a cron expression: either five fields with `*`, lists, ranges, steps and names, or a
 * shortcut such as `@daily`.
 */
function readCron(text: string): Cron {
  const expression = text.trim();
  if (shortcuts.has(expression)) return new Cron(expression);
  const fields = expression.split(/\s+/).map((it, place) => (place === 4 ? toSunday(it) : it));
  if (fields.length !== cronBounds.length) fail('cron: expected five fields');
  for (const [place, bounds] of cronBounds.entries()) {
    const field = fields[place] ?? '';
    if (!isCronField(field, place))
      fail(`cron: ${field} is not a valid value for a field with ${bounds}`);
  }
  const [, , day = '', , weekday = ''] = fields;
  // As in cron, a day matches if both fields for days match. If both fields restrict the day, one
  // match is enough.
  const domAndDow = day.startsWith('*') || weekday.startsWith('*');
  return new Cron(fields.join(' '), { ...cronOptions, domAndDow });
}

/**
 * Replaces steps such as `1/2` with lists such as `1,3,5,7`. The list extends to weekday 7, which
 * is Sunday. The cron library would end it at 6.
 */
function toSunday(weekday: string): string {
  return weekday.replace(/(?<![-\d])([0-7])\/([1-9]\d*)/g, (_, first: string, step: string) => {
    const count = Math.floor((7 - Number(first)) / Number(step)) + 1;
    return Array.from({ length: count }, (_day, it) => Number(first) + it * Number(step)).join();
  });
}

const cronOptions = { mode: '5-part', sloppyRanges: true } as const;

/** Whether a field contains only characters that Salt accepts. The cron library accepts more. */
function isCronField(field: string, place: number): boolean {
  if (!/^[a-z\d*,/-]+$/i.test(field) || /\d[a-z]|[a-z]\d|\b[lw]\b/i.test(field)) {
    return false;
  }
  const fields = cronBounds.map((_, other) => (other === place ? field : '*'));
  try {
    new Cron(fields.join(' '), cronOptions);
    return true;
  } catch {
    return false;
  }
}

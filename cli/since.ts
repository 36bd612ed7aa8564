import { CommandError } from './errors.ts';

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/**
 * The moment that `--since` names, milliseconds since 1970: a length of time back from now
 * (`90s`, `30m`, `1h`, `7d`, `2w`), or a date or time as in ISO 8601.
 * @throws CommandError ERR_ARGS
 */
export function readSince(text: string, now: number = Date.now()): number {
  const [, count, unit = ''] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  const seconds = units[unit];
  if (count !== undefined && seconds !== undefined) return now - Number(count) * seconds * 1000;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new CommandError('ERR_ARGS', '--since is a time such as 30m, 1h, 7d, or a date');
}

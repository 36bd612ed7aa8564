import { type Command, InvalidArgumentError, Option } from 'commander';
import { logLevels } from '#master';
import { CommandError } from './errors.ts';

/** Returns the option `-c`, the directory of the master's configuration. */
export function configOption(): Option {
  return new Option('-c, --config-dir <dir>', "the master's configuration directory").default(
    '/etc/salt',
  );
}

/** Returns the option `-l`, the level of the log. */
export function logLevelOption(): Option {
  return new Option('-l, --log-level <level>', 'lowest level of log messages').choices(logLevels);
}

/** Returns the option `--json`, which selects output for programs. */
export function jsonOption(): Option {
  return new Option('--json', 'print JSON');
}

/** Values of the options that {@link withCommonOptions} adds. */
export interface CommonOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Adds the options `-c`, `--json` and `-l` to a command. */
export function withCommonOptions(command: Command): Command {
  return command.addOption(configOption()).addOption(jsonOption()).addOption(logLevelOption());
}

/** Messages about invalid numbers. For Salt's commands, Salt's text replaces them. */
export const numberProblems = {
  count: 'the value must be a whole number of at least 1.',
  seconds: 'the value must be a time in seconds.',
  whole: 'the value must be a whole number.',
} as const;

/** Parses a whole number of at least 1. */
export function parseCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError(numberProblems.count);
  return Number(text);
}

/** Parses a time in seconds, which may have a fraction. */
export function parseSeconds(text: string): number {
  if (!/^\d{1,8}(\.\d+)?$/.test(text)) throw new InvalidArgumentError(numberProblems.seconds);
  return Number(text);
}

/** Parses a TCP port. */
export function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port === 0 || port > 65_535) {
    throw new InvalidArgumentError('the port must be a number from 1 to 65535.');
  }
  return port;
}

const sinceUnitSeconds: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400,
  w: 604_800,
};

/**
 * Parses a start time: a duration before now (`90s`, `30m`, `1h`, `7d`, `2w`), or a date or time in
 * ISO 8601 form. Returns milliseconds since 1970.
 * @throws CommandError ERR_ARGS
 */
export function parseSince(text: string, now: number = Date.now()): number {
  const [, count, unit = ''] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  const seconds = sinceUnitSeconds[unit];
  if (count !== undefined && seconds !== undefined) return now - Number(count) * seconds * 1000;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new CommandError('ERR_ARGS', `${text} is not a time: use 30m, 1h, 7d, or a date`);
}

import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import type { LogLevel } from '#config';

/** Salt's log levels, least verbose first, each with the corresponding level of pino. */
const pinoLevels: Readonly<Record<LogLevel, string>> = {
  quiet: 'silent',
  critical: 'fatal',
  error: 'error',
  warning: 'warn',
  info: 'info',
  profile: 'info',
  debug: 'debug',
  trace: 'trace',
  garbage: 'trace',
  all: 'trace',
};

/** All log levels of Salt, least verbose first. */
export const logLevels: readonly string[] = Object.keys(pinoLevels);

/**
 * Names of fields that are redacted up to a depth of two. This is a safeguard, because such fields
 * should not be logged at all.
 */
const secretFields = [
  'aes',
  'arg',
  'args',
  'kwarg',
  'kwargs',
  'key',
  'key_pass',
  'signing_key_pass',
  'keyPass',
  'signingKeyPass',
  'password',
  'pillar',
  'session',
  'tok',
  'token',
];

/** Destination of log lines, with its minimum level. */
export interface LogTarget {
  readonly level: LogLevel;
  readonly stream: DestinationStream;
}

/** Root logger with adjustable levels. */
export interface RootLog {
  readonly logger: Logger;
  /**
   * Sets the level of each target, in the order of the targets. Child loggers change their levels
   * too.
   */
  setLevels(levels: readonly LogLevel[]): void;
}

/** Creates the root logger of a master or a command. It writes JSON lines with secrets redacted. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  const options = pinoOptions(level);
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Creates a root logger that writes to several targets, each with its own level. */
export function createRootLog(targets: readonly LogTarget[]): RootLog {
  const fan = new LogFan(targets);
  const children: Logger[] = [];
  // A child logger does not follow the level of its parent, so the level of each child must be set.
  const onChild = (child: Logger): void => void children.push(child);
  const logger = pino({ ...pinoOptions(fan.lowestLevel), onChild }, fan);
  return {
    logger,
    setLevels: (levels) => {
      fan.setLevels(levels);
      for (const each of [logger, ...children]) each.level = pinoLevels[fan.lowestLevel];
    },
  };
}

/** Stream property that makes pino set the stream's `lastLevel` before it writes each line. */
const asksForLevel: unique symbol = Symbol.for('pino.metadata');

/** Stream with several targets. Each line goes to every target whose level includes the line. */
class LogFan implements DestinationStream {
  readonly [asksForLevel] = true;
  /** Level of the next line, set by pino. */
  lastLevel = 0;
  #targets: readonly LogTarget[];

  constructor(targets: readonly LogTarget[]) {
    this.#targets = targets;
  }

  /** Level of the most verbose log target. */
  get lowestLevel(): LogLevel {
    const levels = this.#targets.map(({ level }) => level);
    return levels.reduce((a, b) => (threshold(b) < threshold(a) ? b : a), 'quiet');
  }

  setLevels(levels: readonly LogLevel[]): void {
    this.#targets = this.#targets.map(({ stream, level }, index) => ({
      stream,
      level: levels[index] ?? level,
    }));
  }

  write(line: string): void {
    for (const { level, stream } of this.#targets) {
      if (this.lastLevel >= threshold(level)) stream.write(line);
    }
  }
}

function threshold(level: LogLevel): number {
  return pino.levels.values[pinoLevels[level]] ?? Number.POSITIVE_INFINITY;
}

function pinoOptions(level: LogLevel): LoggerOptions {
  return {
    level: pinoLevels[level],
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
  };
}

/** Creates a logger without output. It is the default if a program does not supply a logger. */
export function createSilentLogger(): Logger {
  return pino({ level: 'silent' });
}

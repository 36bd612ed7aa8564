import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import type { LogLevel } from '#config';

/** Salt's levels, from the quietest on, in pino's. */
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

/** Every level that Salt knows, from the quietest on. */
export const logLevels: readonly string[] = Object.keys(pinoLevels);

/** Fields that never reach a log, wherever they stand; a net under not logging them at all. */
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

/** Where lines go, and from which level on. */
export interface LogTarget {
  readonly level: LogLevel;
  readonly stream: DestinationStream;
}

/** A root logger whose levels can be changed. */
export interface RootLog {
  readonly logger: Logger;
  /** The level of each target, in their order; loggers that were derived follow. */
  setLevels(levels: readonly LogLevel[]): void;
}

/** The root logger of a master or a command: JSON lines, secrets redacted. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  const options = pinoOptions(level);
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** A root logger that writes to several places, each from a level of its own on. */
export function createRootLog(targets: readonly LogTarget[]): RootLog {
  const fan = new LogFan(targets);
  const children: Logger[] = [];
  // A derived logger keeps a level of its own, so each must be told.
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

/** A stream that has this is told the level of each line by pino. */
const asksForLevel: unique symbol = Symbol.for('pino.metadata');

/** Hands each line to the targets that want its level. */
class LogFan implements DestinationStream {
  readonly [asksForLevel] = true;
  /** Set by pino before each line. */
  lastLevel = 0;
  #targets: readonly LogTarget[];

  constructor(targets: readonly LogTarget[]) {
    this.#targets = targets;
  }

  /** What the most talkative target wants. */
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

/** Says nothing: the default where a service gives no logger. */
export function createSilentLogger(): Logger {
  return pino({ level: 'silent' });
}

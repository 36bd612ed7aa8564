import { type DestinationStream, type Logger, pino } from 'pino';
import type { LogLevel } from './config/options.ts';

/** Salt's levels in pino's; `garbage` and `all` are everything, `profile` is debug. */
const pinoLevels: Readonly<Record<LogLevel, string>> = {
  all: 'trace',
  garbage: 'trace',
  trace: 'trace',
  debug: 'debug',
  profile: 'debug',
  info: 'info',
  warning: 'warn',
  error: 'error',
  critical: 'fatal',
  quiet: 'silent',
};

/** Fields that never reach a log, wherever they stand; a net under not logging them at all. */
const secretFields = [
  'aes',
  'arg',
  'args',
  'kwarg',
  'kwargs',
  'key',
  'key_pass',
  'keyPass',
  'password',
  'pillar',
  'session',
  'tok',
  'token',
];

/** The root logger of a master or a command: JSON lines, secrets redacted. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  const options = {
    level: pinoLevels[level],
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Says nothing: the default where a service gives no logger. */
export function createSilentLogger(): Logger {
  return pino({ level: 'silent' });
}

import { type DestinationStream, type Logger, pino } from 'pino';
import type { LogLevel } from './config/options.ts';

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

import path from 'node:path';
import type { DestinationStream, Logger } from 'pino';
import pretty from 'pino-pretty';
import {
  createRootLog,
  createLogger as createRootLogger,
  type LogLevel,
  type MasterConfig,
} from '../master/index.ts';
import type { Account } from './accounts.ts';
import type { OutputStream } from './context.ts';
import { LogFile } from './log-file.ts';

/** The root logger of a process: one JSON object a line, or lines for people on a terminal. */
export function createLogger(level: LogLevel, stderr: OutputStream): Logger {
  return createRootLogger(level, forWhom(stderr));
}

/** Where a master's lines go. */
export interface MasterLogOptions {
  /** `undefined`: to the log file alone. */
  readonly stderr: OutputStream | undefined;
  /** `-l`, which goes before `log_level`. */
  readonly level: LogLevel | undefined;
  /** Whom a new log file belongs to. */
  readonly owner: Account | undefined;
}

type LogOptions = Pick<MasterConfig, 'logFile' | 'logLevel' | 'logLevelLogfile'>;

/** A master's log: the console, and `log_file`. */
export interface MasterLog {
  readonly logger: Logger;
  /** Takes the levels of another configuration. */
  setLevels(config: LogOptions): void;
  /** Goes on in a new `log_file`. */
  reopen(): void;
  close(): void;
}

/** A stream, and the level that a configuration gives it. */
interface Sink {
  readonly stream: DestinationStream;
  levelIn(config: LogOptions): LogLevel;
}

/**
 * Opens the log of a master. A file that cannot be opened is told on the console.
 * @throws the system's error for such a file where there is no console
 */
export function openMasterLog(config: LogOptions, options: MasterLogOptions): MasterLog {
  const { stderr, level, owner } = options;
  const { file, problem } = tryToOpen(config.logFile, owner);
  if (problem !== undefined && stderr === undefined) throw problem;
  const sinks: Sink[] = [];
  if (stderr !== undefined) {
    sinks.push({ stream: forWhom(stderr), levelIn: ({ logLevel }) => level ?? logLevel });
  }
  if (file !== undefined) {
    sinks.push({
      stream: file,
      levelIn: ({ logLevel, logLevelLogfile }) => logLevelLogfile ?? level ?? logLevel,
    });
  }
  const { logger, setLevels } = createRootLog(
    sinks.map(({ stream, levelIn }) => ({ stream, level: levelIn(config) })),
  );
  if (problem !== undefined) {
    logger.warn({ file: config.logFile, err: problem }, 'log_file could not be opened');
  }
  return {
    logger,
    setLevels: (next) => setLevels(sinks.map(({ levelIn }) => levelIn(next))),
    reopen: () => {
      try {
        file?.reopen();
      } catch (error) {
        logger.error({ file: config.logFile, err: error }, 'log_file could not be reopened');
      }
    },
    close: () => file?.close(),
  };
}

function tryToOpen(
  name: string,
  owner: Account | undefined,
): { readonly file?: LogFile; readonly problem?: unknown } {
  // An address (`file:///dev/log`) is named among the warnings of the configuration.
  if (!path.isAbsolute(name)) return {};
  try {
    return { file: new LogFile(name, owner) };
  } catch (problem) {
    return { problem };
  }
}

function forWhom(stderr: OutputStream): DestinationStream {
  return stderr.isTTY === true ? pretty({ destination: stderr, sync: true }) : stderr;
}

import { closeSync, constants, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Writable } from 'node:stream';
import type { DestinationStream, Logger } from 'pino';
import type { LogLevel, MasterConfig } from '#config';
import { createRootLog, createLogger as createRootLogger } from '#master';
import type { Account } from './account.ts';
import { createOwnedDirectory, openOwnedFile } from './owned-files.ts';

const require = createRequire(import.meta.url);

/**
 * Opens a log file for appending. If the file or its directories do not exist, they are created and
 * belong to `owner`.
 * @returns file descriptor
 */
export function openLogFile(file: string, owner: Account | undefined): number {
  createOwnedDirectory(path.dirname(file), 0o750, owner);
  return openOwnedFile(file, constants.O_WRONLY | constants.O_APPEND, 0o640, owner);
}

/** Log file that log rotation can rename while the master writes to it. */
export class LogFile {
  readonly #file: string;
  #descriptor: number;

  /**
   * Opens the file.
   * @throws the system error if the file cannot be opened
   */
  constructor(file: string, owner?: Account) {
    this.#file = file;
    this.#descriptor = openLogFile(file, owner);
  }

  write(line: string): void {
    try {
      writeSync(this.#descriptor, line);
    } catch {
      // If the disk is full, log lines are dropped, but the master continues to run.
    }
  }

  /**
   * Closes the file, and continues with a new file of the same name.
   * @throws the system error if the new file cannot be opened; the old file then stays in use
   */
  reopen(): void {
    const next = openLogFile(this.#file, undefined);
    closeSync(this.#descriptor);
    this.#descriptor = next;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** Output stream for log lines. It may be a terminal. */
export type LogStream = Writable & { readonly isTTY?: boolean };

/**
 * Returns the root logger of a process. It writes one JSON object per line. On a terminal it writes
 * readable text instead.
 */
export function createLogger(level: LogLevel, stderr: LogStream): Logger {
  return createRootLogger(level, logDestination(stderr));
}

/** Destinations of a master's log lines. */
export interface MasterLogOptions {
  /** Console, or `undefined` to write only to the log file. */
  readonly stderr: LogStream | undefined;
  /** Log level from the command line (`-l`). It takes precedence over `log_level`. */
  readonly level: LogLevel | undefined;
  /** Owner of new log files. */
  readonly owner: Account | undefined;
}

type LogOptions = Pick<MasterConfig, 'logFile' | 'logLevel' | 'logLevelLogfile'>;

/** Log of a master. It writes to the console and to `log_file`. */
export interface MasterLog {
  readonly logger: Logger;
  /** Sets the log levels of another configuration. */
  setLevels(config: LogOptions): void;
  /** Closes `log_file`, and continues with a new file of the same name. */
  reopen(): void;
  close(): void;
}

/** Destination of log lines, with the level that the configuration sets for it. */
interface Sink {
  readonly stream: DestinationStream;
  levelIn(config: LogOptions): LogLevel;
}

/**
 * Opens the log of a master. If the log file cannot be opened, the failure is logged on the
 * console.
 * @throws the system error if the log file cannot be opened and there is no console
 */
export function openMasterLog(config: LogOptions, options: MasterLogOptions): MasterLog {
  const { stderr, level, owner } = options;
  const { file, problem } = tryToOpenLogFile(config.logFile, owner);
  if (problem !== undefined && stderr === undefined) throw problem;
  const sinks: Sink[] = [];
  if (stderr !== undefined) {
    sinks.push({
      stream: logDestination(stderr),
      levelIn: ({ logLevel }) => level ?? logLevel,
    });
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
    logger.warn(
      { file: config.logFile, err: problem },
      'cannot open the file in the option `log_file`; logging continues on the console',
    );
  }
  return {
    logger,
    setLevels: (next) => setLevels(sinks.map(({ levelIn }) => levelIn(next))),
    reopen: () => {
      try {
        file?.reopen();
      } catch (error) {
        logger.error(
          { file: config.logFile, err: error },
          'cannot reopen the file in the option `log_file`; logging continues in the old file',
        );
      }
    },
    close: () => file?.close(),
  };
}

function tryToOpenLogFile(
  name: string,
  owner: Account | undefined,
): { readonly file?: LogFile; readonly problem?: unknown } {
  // Salt also accepts an address here, for example `file:///dev/log`. It is not opened, and the
  // configuration check reports it.
  if (!path.isAbsolute(name)) return {};
  try {
    return { file: new LogFile(name, owner) };
  } catch (problem) {
    return { problem };
  }
}

/** Returns the destination for log lines: formatted text on a terminal, otherwise JSON. */
function logDestination(stderr: LogStream): DestinationStream {
  if (stderr.isTTY !== true) return stderr;
  try {
    const pretty: typeof import('pino-pretty') = require('pino-pretty');
    return pretty({ destination: stderr, sync: true });
  } catch {
    // The package for readable text is optional. Without it, log lines are written as JSON.
    return stderr;
  }
}

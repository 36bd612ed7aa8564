import type { Logger } from 'pino';
import pretty from 'pino-pretty';
import { createLogger as createRootLogger, type LogLevel } from '../master/index.ts';
import type { OutputStream } from './context.ts';

/** The root logger of a process: one JSON object a line, or lines for people on a terminal. */
export function createLogger(level: LogLevel, stderr: OutputStream): Logger {
  const isTerminal = stderr.isTTY === true;
  return createRootLogger(level, isTerminal ? pretty({ destination: stderr, sync: true }) : stderr);
}

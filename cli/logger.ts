import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { OutputStream } from './context.ts';
import { toPinoLevel } from './log-levels.ts';

/**
 * The root logger of a process: one JSON object a line, or lines for people on a terminal.
 * @param level one of Salt's levels or pino's
 */
export function createLogger(level: string, stderr: OutputStream): Logger {
  const destination = stderr.isTTY === true ? pretty({ destination: stderr, sync: true }) : stderr;
  return pino({ level: toPinoLevel(level) }, destination);
}

/** Salt's log levels and what they are to pino. */
import type { LevelWithSilent } from 'pino';

const pinoLevels: ReadonlyMap<string, LevelWithSilent> = new Map([
  ['quiet', 'silent'],
  ['critical', 'fatal'],
  ['error', 'error'],
  ['warning', 'warn'],
  ['info', 'info'],
  ['profile', 'info'],
  ['debug', 'debug'],
  ['trace', 'trace'],
  ['garbage', 'trace'],
  ['all', 'trace'],
]);

/** Every level that Salt knows, from the quietest on. */
export const saltLogLevels: readonly string[] = [...pinoLevels.keys()];

/** pino's level for one of Salt's; pino's own names are taken as they are. */
export function toPinoLevel(level: string): string {
  return pinoLevels.get(level) ?? level;
}

/** Whether a person who asks for this level wants to see where an error comes from. */
export function showsStacks(level: unknown): boolean {
  return typeof level === 'string' && ['debug', 'trace'].includes(toPinoLevel(level));
}

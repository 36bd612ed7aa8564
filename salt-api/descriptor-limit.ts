import { readFileSync } from 'node:fs';

/**
 * Limit that is assumed if the system does not report one. It is the usual default of POSIX
 * systems.
 */
const usualLimit = 1024;

/** Returns the maximum number of files and connections that this process may open. */
export function descriptorLimit(): number {
  let text = '';
  try {
    text = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    // Only Linux has this file.
  }
  const [, limit] = /^Max open files\s+(\d+)/m.exec(text) ?? [];
  return limit === undefined ? usualLimit : Number(limit);
}

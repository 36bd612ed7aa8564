import { readFileSync } from 'node:fs';

/** Where the system does not say: POSIX systems give a process at least so many. */
const usualLimit = 1024;

/** How many files and connections this process may have open. */
export function descriptorLimit(): number {
  let text = '';
  try {
    text = readFileSync('/proc/self/limits', 'utf8');
  } catch {
    // Only Linux has it.
  }
  const [, limit] = /^Max open files\s+(\d+)/m.exec(text) ?? [];
  return limit === undefined ? usualLimit : Number(limit);
}

/** Ends a process that has outlived its parent and is known only by its id. */
import { until } from './deadline.ts';

/** Ends a process like a service manager, by SIGTERM, and waits until it has ended. */
export async function end(pid: number): Promise<void> {
  if (isAlive(pid)) process.kill(pid);
  await until('the process to end', () => !isAlive(pid));
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

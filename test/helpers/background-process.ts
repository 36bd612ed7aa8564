/** A process that outlives its parent, known by its id. */
import { until } from './deadline.ts';

/** Ends it as a service manager would, and waits until it has gone. */
export async function end(pid: number): Promise<void> {
  if (isAlive(pid)) process.kill(pid);
  await until('the process to end', () => !isAlive(pid), 20_000);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

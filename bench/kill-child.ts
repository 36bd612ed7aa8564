import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** SIGKILL; resolves when the process has ended. Nothing happens to one that has, or was not started. */
export async function killChild(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

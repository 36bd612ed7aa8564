import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Resolves when the process has ended. Nothing happens to one that has, or was not started. */
export async function killChild(
  child: ChildProcess | undefined,
  signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL',
): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

/** Something that runs as a process, which may be stopped, ended and started again. */
export class ChildControl {
  protected child: ChildProcess | undefined;

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.child?.kill(name);
  }

  kill(): Promise<void> {
    return killChild(this.child);
  }

  /** Ends it as a service manager would. */
  stop(): Promise<void> {
    return killChild(this.child, 'SIGTERM');
  }
}

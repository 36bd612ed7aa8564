import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/**
 * Sends a signal to a process and waits for its end. Does nothing if the process has already ended
 * or was not started.
 */
export async function killChild(
  child: ChildProcess | undefined,
  signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL',
): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

/** A process that can be suspended, ended and started again. */
export class ChildControl {
  protected child: ChildProcess | undefined;

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.child?.kill(name);
  }

  kill(): Promise<void> {
    return killChild(this.child);
  }

  /** Ends the process with the signal that a service manager uses. */
  stop(): Promise<void> {
    return killChild(this.child, 'SIGTERM');
  }
}

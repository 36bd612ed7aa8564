import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { until } from '../helpers/deadline.ts';

/**
 * A program, and all that it starts, in a process group of its own. It ends with this process,
 * however that ends: a guard waits for its standard input to close.
 */
export class ProcessGroup {
  readonly child: ChildProcess;
  /** The exit code; `null` after a signal. */
  readonly exited: Promise<number | null>;
  readonly #guard: ChildProcess;

  constructor(program: string, args: readonly string[], stdio: SpawnOptions['stdio'] = 'ignore') {
    this.child = spawn(program, args, { detached: true, stdio });
    this.exited = new Promise((resolve, reject) => {
      this.child.once('exit', resolve);
      this.child.once('error', reject);
    });
    // A program that cannot be started is told to whoever waits for its end.
    this.exited.catch(() => {});
    this.#guard = spawn('sh', ['-c', 'cat; kill -KILL "-$0"', String(this.child.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
  }

  /** Asks the program alone to end. */
  terminate(): void {
    this.child.kill('SIGTERM');
  }

  /** Ends the program and all that it started, at once, and waits until none of it is left. */
  async kill(): Promise<void> {
    this.#guard.kill('SIGKILL');
    const { pid } = this.child;
    if (pid === undefined) return;
    signalGroup(pid, 'SIGKILL');
    await this.exited;
    // A minion that finds the process of its pid file still there does not start.
    await until('the end of a process group', () => !signalGroup(pid, 0));
  }
}

/** @returns whether there was any process in the group */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}

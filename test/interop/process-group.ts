import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { until } from '../helpers/deadline.ts';

/**
 * A program in its own process group, with all processes that it starts. They end when this process
 * ends, even if it is killed, because a guard waits until its standard input is closed.
 */
export class ProcessGroup {
  readonly child: ChildProcess;
  /** Exit code of the program; `null` if a signal ended it. */
  readonly exited: Promise<number | null>;
  readonly #guard: ChildProcess;

  constructor(program: string, args: readonly string[], stdio: SpawnOptions['stdio'] = 'ignore') {
    this.child = spawn(program, args, { detached: true, stdio });
    this.exited = new Promise((resolve, reject) => {
      this.child.once('exit', resolve);
      this.child.once('error', reject);
    });
    // If the program cannot be started, `exited` rejects.
    this.exited.catch(() => {});
    this.#guard = spawn('sh', ['-c', 'cat; kill -KILL "-$0"', String(this.child.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
  }

  /** Asks only the program itself to end. */
  terminate(): void {
    this.child.kill('SIGTERM');
  }

  /** Kills all processes of the group, and waits until none is left. */
  async kill(): Promise<void> {
    this.#guard.kill('SIGKILL');
    const { pid } = this.child;
    if (pid === undefined) return;
    signalGroup(pid, 'SIGKILL');
    await this.exited;
    // A minion does not start if the process in its pid file still exists.
    await until('the end of a process group', () => !signalGroup(pid, 0));
  }
}

/**
 * Sends a signal to the group.
 * @returns whether the group had any process
 */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}

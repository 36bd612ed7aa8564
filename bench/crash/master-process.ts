/** Runs a `saltbridge master` process that can be killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { killChild } from '../kill-child.ts';

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

export class MasterProcess {
  readonly #configDirectory: string;
  #child: ChildProcess | undefined;

  constructor(configDirectory: string) {
    this.#configDirectory = configDirectory;
  }

  /** Starts the process without waiting until the master is ready. */
  spawn(): void {
    this.#child = spawn(process.execPath, [program, 'master', '-c', this.#configDirectory], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }

  /**
   * Resolves when the master serves minions. If the process ends before, rejects with the last
   * lines of its log.
   */
  async ready(): Promise<void> {
    const lines: string[] = [];
    const { stderr } = this.#running();
    if (stderr === null) throw new TypeError('no standard error');
    for await (const line of createInterface({ input: stderr })) {
      lines.push(line);
      if (line.includes('"master started"')) {
        stderr.resume();
        return;
      }
    }
    throw new Error(`the master did not start: ${lines.slice(-5).join('\n')}`);
  }

  get pid(): number {
    const { pid } = this.#running();
    if (pid === undefined) throw new Error('cannot start the master process');
    return pid;
  }

  async kill(): Promise<void> {
    await killChild(this.#running());
  }

  #running(): ChildProcess {
    if (this.#child === undefined) throw new Error('the master was never started');
    return this.#child;
  }
}

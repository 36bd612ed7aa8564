/**
 * Runs commands in a shell as if they were typed. Processes that they start in the background
 * continue to run.
 */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { until } from './deadline.ts';

/** Result of a block of commands. */
export interface ShellResult {
  /** Commands that ended with an exit code other than 0, for example `64 saltbridge key list`. */
  readonly failures: readonly string[];
  /** Combined standard output and standard error. */
  readonly output: string;
}

/**
 * A bash process for one test. At the end of the test, it is ended with all processes that it
 * started.
 */
export class Shell {
  readonly #bash: ChildProcessWithoutNullStreams;
  #output = '';

  constructor(t: ExecutionContext, directory: string, environment: NodeJS.ProcessEnv) {
    // The shell has its own process group, so that background processes can be ended with it.
    this.#bash = spawn('bash', ['--norc'], { cwd: directory, env: environment, detached: true });
    for (const stream of [this.#bash.stdout, this.#bash.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString();
      });
    }
    const { pid } = this.#bash;
    t.teardown(() => {
      if (pid !== undefined) process.kill(-pid, 'SIGKILL');
    });
  }

  /** All output since the start, including that of background processes. */
  get output(): string {
    return this.#output;
  }

  /** Types a block of commands and waits until the last command has ended. */
  async type(text: string, ms = 60_000): Promise<ShellResult> {
    const mark = randomUUID();
    const begin = this.#output.length;
    const trap = `trap 'echo "${mark} $? $BASH_COMMAND"' ERR`;
    this.#bash.stdin.write(`${trap}\n${text.trimEnd()}\ntrap - ERR\necho "${mark} end"\n`);
    const end = new RegExp(`^${mark} end$`, 'm');
    await until(`the end of: ${text}`, () => end.test(this.#output), ms);
    const output = this.#output.slice(begin);
    const failed = [...output.matchAll(new RegExp(`^${mark} (\\d.*)$`, 'gm'))];
    return { failures: failed.map(([, failure = '']) => failure), output };
  }
}

/** A shell that somebody types in: what is started in the background stays there. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { until } from './deadline.ts';

/** What a block came to. */
export interface ShellResult {
  /** Commands that ended with another exit code than 0: `64 saltbridge key list`. */
  readonly failures: readonly string[];
  /** Standard output and standard error. */
  readonly output: string;
}

/** Bash, one for a test; it is ended with the test, and all that it started. */
export class Shell {
  readonly #bash: ChildProcessWithoutNullStreams;
  #output = '';

  constructor(t: ExecutionContext, directory: string, environment: NodeJS.ProcessEnv) {
    // A group of its own, so that what stays in the background ends with it.
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

  /** All that was written since the start, also in the background. */
  get output(): string {
    return this.#output;
  }

  /** Types a block, and waits until its last command has ended. */
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

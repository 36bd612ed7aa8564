/**
 * Callers of the bridge in the examples: a program that imports the library, and a program in
 * Python.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Bridge } from '#guests';
import type { CommandRequest } from '#heat-bridge';
import type { Site } from './control-plane.ts';

const client = fileURLToPath(new URL('../clients/python', import.meta.url));

/** Parameters of a command in the catalog. */
type Parameters = NonNullable<CommandRequest['params']>;

/**
 * Calls a command by importing the library.
 * @returns the value that the minion returned
 * @throws Error with the reason if the command failed
 */
export async function call(
  bridge: Bridge,
  minion: string,
  command: string,
  params: Parameters = {},
  idempotencyKey?: string,
): Promise<unknown> {
  const run = await bridge.run(command, {
    target: [minion],
    params,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  });
  const { status, results } = await run.outcome;
  const [result] = results;
  if (status === 'succeeded') return result?.return;
  throw new Error(`${command} ${status}: ${result?.reason ?? JSON.stringify(result?.return)}`);
}

/**
 * Program in Python that calls the bridge over HTTPS. It reads one line of JSON per call, and
 * answers with one line of JSON.
 */
export class PythonCaller {
  readonly #process: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  /** @param user - name with which the program logs in */
  constructor(program: string, { url, certificate, passwords }: Site, user: string) {
    this.#process = spawn('python3', [program], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH ?? '',
        PYTHONPATH: client,
        PYTHONDONTWRITEBYTECODE: '1',
        SALTBRIDGE_URL: url,
        SALTBRIDGE_CA: certificate,
        SALTBRIDGE_USER: user,
        SALTBRIDGE_PASSWORD: passwords.get(user),
      },
    });
    const { stdout } = this.#process;
    if (stdout === null) throw new Error('the output of python3 is not a pipe');
    this.#answers = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  protected async ask(question: unknown): Promise<unknown> {
    this.#process.stdin?.write(`${JSON.stringify(question)}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error('the Python program has ended');
    return JSON.parse(value);
  }

  async close(): Promise<void> {
    const end = once(this.#process, 'exit');
    this.#process.stdin?.end();
    await end;
  }
}

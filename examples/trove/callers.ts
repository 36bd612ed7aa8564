/** Who calls the bridge: a program that imports the library, and Trove's task manager in Python. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Bridge, CommandRequest } from '../../heat-bridge/index.ts';
import type { ControlPlane } from './control-plane.ts';
import { sources } from './control-plane.ts';

const client = fileURLToPath(new URL('../../../clients/python', import.meta.url));

/** Of a command of the catalog. */
type Parameters = NonNullable<CommandRequest['params']>;

/** In TypeScript, by import. @returns what the instance returned @throws Error with its reason */
export async function call(
  bridge: Bridge,
  minion: string,
  command: string,
  params: Parameters = {},
  idempotencyKey?: string,
): Promise<unknown> {
  const run = await bridge.run(`trove.${command}`, {
    target: [minion],
    params,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  });
  const { status, results } = await run.outcome;
  const [result] = results;
  if (status === 'succeeded') return result?.return;
  throw new Error(`${command} ${status}: ${result?.reason ?? JSON.stringify(result?.return)}`);
}

/** What a method of GuestAgent gave. */
export interface AgentAnswer {
  readonly return?: unknown;
  /** Outcomes of what was cast. */
  readonly runs?: readonly { readonly id: string; readonly status: string }[];
  /** Code and message. */
  readonly error?: readonly [string, string];
}

/** Trove's task manager: Python, over HTTPS, by its own names of methods and arguments. */
export class TaskManager {
  readonly #process: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  constructor({ url, certificate, passwords }: ControlPlane, user: 'blog' | 'shop') {
    const program = path.join(sources, 'python/call_agent.py');
    this.#process = spawn('python3', [program], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH ?? '',
        PYTHONPATH: client,
        PYTHONDONTWRITEBYTECODE: '1',
        SALTBRIDGE_URL: url,
        SALTBRIDGE_CA: certificate,
        SALTBRIDGE_USER: user,
        SALTBRIDGE_PASSWORD: passwords[user],
      },
    });
    const { stdout } = this.#process;
    if (stdout === null) throw new Error('the output of python3 is not a pipe');
    this.#answers = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** @param request of Trove's; the same call of the same request is the same run */
  async call(
    minion: string,
    request: string,
    method: string,
    args: Readonly<Record<string, unknown>> = {},
  ): Promise<AgentAnswer> {
    this.#process.stdin?.write(`${JSON.stringify([minion, request, method, args])}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error('the task manager has ended');
    return JSON.parse(value);
  }

  async close(): Promise<void> {
    const end = once(this.#process, 'exit');
    this.#process.stdin?.end();
    await end;
  }
}

/** Runs a statement as a customer does. @returns its output; the reason where it is refused */
export function query(
  port: number,
  user: string,
  password: string,
  statement: string,
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const args = ['--no-defaults', '--protocol=tcp', '--host=127.0.0.1', `--port=${port}`];
  const more = ['--skip-column-names', `--user=${user}`, `--execute=${statement}`];
  // Not as an argument, where other accounts of the machine see it.
  const env = { ...process.env, MYSQL_PWD: password };
  return new Promise((resolve) => {
    execFile('mariadb', [...args, ...more], { env }, (error, stdout, stderr) =>
      resolve({ ok: error === null, text: (error === null ? stdout : stderr).trim() }),
    );
  });
}

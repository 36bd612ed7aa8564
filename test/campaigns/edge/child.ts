/** Requests from a campaign to its processes, over the channel of `fork`. */

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { memoryVariable, nodeOption } from '../../../bench/as-shipped.ts';
import { killChild } from '../../../bench/kill-child.ts';

/** Functions of a process. Their parameters and results are sent as JSON. */
export type Functions<Table> = {
  readonly [Name in keyof Table]: (params: never) => Promise<unknown>;
};

interface Request {
  readonly id: number;
  readonly name: string;
  readonly params: unknown;
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** Answers the requests of the campaign. The process ends with its parent. */
export function serveParent<Table extends Functions<Table>>(table: Table): void {
  const functions = new Map<string, (params: never) => Promise<unknown>>(Object.entries(table));
  const answer = async ({ id, name, params }: Request): Promise<void> => {
    const reply = async (): Promise<Reply> => {
      try {
        const call = functions.get(name);
        if (call === undefined) throw new Error(`${name}: no such function`);
        return { id, value: await call(params as never) };
      } catch (error) {
        return { id, error: error instanceof Error ? (error.stack ?? error.message) : 'failed' };
      }
    };
    process.send?.(await reply());
  };
  process.on('message', (request: Request) => void answer(request));
  process.on('disconnect', () => process.exit());
}

/** Process of a campaign. */
export class Child<Table extends Functions<Table>> {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #nextId = 1;

  /** @param namespace - network namespace of the process. Default: that of the campaign */
  constructor(program: string, parameters: readonly string[] = [], namespace?: string) {
    const file = fileURLToPath(new URL(program, import.meta.url));
    const execArgv = ['--expose-gc', nodeOption];
    const env = { ...process.env, ...memoryVariable };
    this.#process = fork(
      file,
      parameters,
      namespace === undefined
        ? { execArgv, env }
        : {
            env,
            execPath: 'ip',
            execArgv: ['netns', 'exec', namespace, process.execPath, ...execArgv],
          },
    );
    this.#process.on('message', (reply: Reply) => this.#waiting.get(reply.id)?.(reply));
    this.#process.on('exit', () => {
      for (const [id, settle] of this.#waiting) settle({ id, error: 'the process has ended' });
    });
  }

  async ask<Name extends keyof Table & string>(
    name: Name,
    params: Parameters<Table[Name]>[0],
  ): Promise<Awaited<ReturnType<Table[Name]>>> {
    const id = this.#nextId;
    this.#nextId += 1;
    const reply = await new Promise<Reply>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#process.send({ id, name, params });
    });
    this.#waiting.delete(id);
    if (reply.error !== undefined) throw new Error(`${name}: ${reply.error}`);
    return reply.value as Awaited<ReturnType<Table[Name]>>;
  }

  /** Ends the process without a notice. */
  kill(): Promise<void> {
    return killChild(this.#process);
  }

  /** Waits until the process has ended by itself. */
  async ended(): Promise<void> {
    if (this.#process.exitCode === null) await once(this.#process, 'exit');
  }
}

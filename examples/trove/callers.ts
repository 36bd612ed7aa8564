/** Trove's task manager in Python, and customers of a database. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PythonCaller } from '../callers.ts';
import { type ControlPlane, startControlPlane } from '../control-plane.ts';
import type { CloudDescription } from '../heat/cloud.ts';

/** Of this example, in the sources. */
export const sources: string = fileURLToPath(new URL('../../examples/trove', import.meta.url));

/** @param cloud - whose tokens services may send. Default: none */
export function startTrovePlane(cloud?: CloudDescription): Promise<ControlPlane> {
  return startControlPlane({ sources, service: 'trove', users: ['shop', 'blog'], cloud });
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
export class TaskManager extends PythonCaller {
  constructor(plane: ControlPlane, user: 'blog' | 'shop') {
    super(path.join(sources, 'python/call_agent.py'), plane, user);
  }

  /** @param request of Trove's; the same call of the same request is the same run */
  async call(
    minion: string,
    request: string,
    method: string,
    args: Readonly<Record<string, unknown>> = {},
  ): Promise<AgentAnswer> {
    // As call_agent.py says.
    return (await this.ask([minion, request, method, args])) as AgentAnswer;
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

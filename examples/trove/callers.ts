/** Trove's task manager in Python, and clients of a database. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PythonCaller } from '../callers.ts';
import { type ControlPlane, startControlPlane } from '../control-plane.ts';
import type { CloudDescription } from '../heat/cloud.ts';

/** Directory of this example's sources. */
export const sources: string = fileURLToPath(new URL('../../examples/trove', import.meta.url));

/**
 * Starts the master of the Trove examples.
 * @param cloud - cloud whose Keystone tokens services may send. Default: none
 */
export function startTrovePlane(cloud?: CloudDescription): Promise<ControlPlane> {
  return startControlPlane({ sources, service: 'trove', users: ['shop', 'blog'], cloud });
}

/** Result of a method of GuestAgent. */
export interface AgentAnswer {
  readonly return?: unknown;
  /** Results of commands that were sent without waiting (cast). */
  readonly runs?: readonly { readonly id: string; readonly status: string }[];
  /** Code and message of the error. */
  readonly error?: readonly [string, string];
}

/**
 * Trove's task manager. It is written in Python, calls the bridge over HTTPS, and has Trove's names
 * of methods and arguments.
 */
export class TaskManager extends PythonCaller {
  constructor(plane: ControlPlane, user: 'blog' | 'shop') {
    super(path.join(sources, 'python/call_agent.py'), plane, user);
  }

  /**
   * Calls a method of GuestAgent.
   * @param request - id of Trove's request. The same call in the same request is treated as the
   * same run
   */
  async call(
    minion: string,
    request: string,
    method: string,
    args: Readonly<Record<string, unknown>> = {},
  ): Promise<AgentAnswer> {
    // The type of the result is defined in call_agent.py.
    return (await this.ask([minion, request, method, args])) as AgentAnswer;
  }
}

/**
 * Runs a statement as a customer of the database.
 * @returns the output, or the reason if the statement was rejected
 */
export function query(
  port: number,
  user: string,
  password: string,
  statement: string,
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const args = ['--no-defaults', '--protocol=tcp', '--host=127.0.0.1', `--port=${port}`];
  const more = ['--skip-column-names', `--user=${user}`, `--execute=${statement}`];
  // The password is not passed as an argument, because other accounts of the machine could read it.
  const env = { ...process.env, MYSQL_PWD: password };
  return new Promise((resolve) => {
    execFile('mariadb', [...args, ...more], { env }, (error, stdout, stderr) =>
      resolve({ ok: error === null, text: (error === null ? stdout : stderr).trim() }),
    );
  });
}

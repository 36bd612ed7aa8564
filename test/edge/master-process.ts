/** Starts a master of a site or a centre in a process of its own. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { killChild } from '../../bench/kill-child.ts';

const child = fileURLToPath(new URL('master-child.ts', import.meta.url));

/** Master in a process of its own. */
export interface MasterProcess {
  /** Port of the HTTP API. 0: none. */
  readonly port: number;
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>;
}

/**
 * Starts a process. Resolves when its master serves.
 * @param options - options of `createMasterServer` that JSON can represent
 */
export async function startProcess(t: ExecutionContext, options: object): Promise<MasterProcess> {
  const started = spawn(process.execPath, [child, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => killChild(started));
  return { port: Number(await firstLine(started)), kill: () => killChild(started) };
}

async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('the output is not read');
  for await (const line of createInterface(stdout)) return line;
  throw new Error('the master has ended');
}

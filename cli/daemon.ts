/** `saltbridge master -d`: a master that outlives its terminal. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectMaster } from '../client/index.ts';
import type { MasterConfig } from '../master/index.ts';
import type { Account } from './accounts.ts';
import { CommandError } from './errors.ts';
import { openLogFile } from './log-file.ts';

const startTimeoutMs = 60_000;
const pollMs = 100;

/**
 * Starts a program of Node's without a terminal, and waits until its local socket answers.
 * @param argv of the new process, the program's file first
 * @param owner - whom a new log file belongs to
 * @returns its process id
 * @throws CommandError ERR_MASTER_NOT_READY when it ends early or does not answer in a minute
 */
export async function startDaemon(
  argv: readonly string[],
  config: Pick<MasterConfig, 'socket' | 'logFile'>,
  owner?: Account,
): Promise<number> {
  // What the process says before it has a log of its own, and as it dies.
  const log = path.isAbsolute(config.logFile) ? openLogFile(config.logFile, owner) : 'ignore';
  const child = spawn(process.execPath, [...argv], {
    detached: true,
    stdio: ['ignore', log, log],
  });
  if (typeof log === 'number') closeSync(log);
  const hasEnded = new AbortController();
  child.once('error', (error) => hasEnded.abort(error.message));
  child.once('exit', (code, signal) => hasEnded.abort(`it ended with ${code ?? signal}`));
  const pid = await waitUntilReady(child, config, hasEnded.signal);
  child.removeAllListeners();
  child.unref();
  return pid;
}

async function waitUntilReady(
  child: ChildProcess,
  { socket, logFile }: Pick<MasterConfig, 'socket' | 'logFile'>,
  hasEnded: AbortSignal,
): Promise<number> {
  const deadline = Date.now() + startTimeoutMs;
  const api = connectMaster({ socketPath: socket });
  while (!hasEnded.aborted && Date.now() < deadline) {
    // Another master on the same socket answers too: only the one that was started counts.
    const pid = await api.status().then(
      (status) => status.pid,
      () => undefined,
    );
    if (pid !== undefined && pid === child.pid) return pid;
    await delay(pollMs, undefined, { signal: hasEnded }).catch(() => undefined);
  }
  if (!hasEnded.aborted) child.kill();
  const reason = hasEnded.aborted ? String(hasEnded.reason) : 'it did not answer in a minute';
  const message = `the master did not start: ${reason}; see ${logFile}`;
  throw new CommandError('ERR_MASTER_NOT_READY', message);
}

/** `saltbridge master -d`: runs the master as a detached process. */

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectMaster } from '#client';
import type { MasterConfig } from '#config';
import type { Account } from '#server/process/account.ts';
import { openLogFile } from '#server/process/log.ts';
import { CommandError } from '../errors.ts';

const startTimeoutMs = 60_000;
const pollMs = 100;

/**
 * Starts a Node.js program without a terminal, and waits until its local socket responds.
 * @param argv - arguments of the new process. The first argument is the file of the program
 * @param owner - owner of a new log file
 * @returns process id
 * @throws CommandError ERR_MASTER_NOT_READY if the process ends early or does not respond within a
 * minute
 */
export async function startDaemon(
  argv: readonly string[],
  config: Pick<MasterConfig, 'socket' | 'logFile'>,
  owner?: Account,
): Promise<number> {
  // This file receives the output of the process before it opens its log, and after a crash.
  const log = path.isAbsolute(config.logFile) ? openLogFile(config.logFile, owner) : 'ignore';
  const begin = typeof log === 'number' ? fstatSync(log).size : 0;
  const child = spawn(process.execPath, [...argv], {
    detached: true,
    stdio: ['ignore', log, log],
  });
  if (typeof log === 'number') closeSync(log);
  const hasEnded = new AbortController();
  child.once('error', (error) => hasEnded.abort(error.message));
  child.once('exit', (code, signal) => hasEnded.abort(`its process ended with ${code ?? signal}`));
  const pid = await waitUntilReady(child, config, hasEnded.signal, begin);
  child.removeAllListeners();
  child.unref();
  return pid;
}

async function waitUntilReady(
  child: ChildProcess,
  { socket, logFile }: Pick<MasterConfig, 'socket' | 'logFile'>,
  hasEnded: AbortSignal,
  begin: number,
): Promise<number> {
  const deadline = Date.now() + startTimeoutMs;
  const api = connectMaster({ socketPath: socket });
  while (!hasEnded.aborted && Date.now() < deadline) {
    // Compare the process id, because a master that was already running on this socket would
    // respond too.
    const pid = await api.status().then(
      (status) => status.pid,
      () => undefined,
    );
    if (pid !== undefined && pid === child.pid) return pid;
    await delay(pollMs, undefined, { signal: hasEnded }).catch(() => undefined);
  }
  if (!hasEnded.aborted) child.kill();
  const reason = hasEnded.aborted
    ? String(hasEnded.reason)
    : 'its process did not respond within a minute';
  const lastWords = await readLastWords(logFile, begin);
  const message = `the master did not start: ${reason}${lastWords}; see ${logFile}`;
  throw new CommandError('ERR_MASTER_NOT_READY', message);
}

/** Maximum number of bytes that are read from the log of a process. */
const maxLastWords = 65_536;

/**
 * Returns the last error message of this program in a log file, with a colon before it. Returns an
 * empty text if there is none.
 * @param begin - position in the file at which the process began to log
 */
async function readLastWords(logFile: string, begin: number): Promise<string> {
  const said = await readEnd(logFile, begin).catch(() => '');
  const reason = said.split('\n').findLast((line) => line.startsWith('saltbridge: '));
  return reason === undefined ? '' : `: ${reason.slice('saltbridge: '.length)}`;
}

/** Reads the last {@link maxLastWords} bytes of a file. The whole file may not fit into memory. */
async function readEnd(file: string, begin: number): Promise<string> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const from = Math.max(begin, size - maxLastWords);
    const { buffer, bytesRead } = await handle.read({
      buffer: Buffer.alloc(Math.max(0, size - from)),
      position: from,
    });
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

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
 * @param argv of the new process, the program's file first
 * @param owner - owner of a new log file
 * @returns its process id
 * @throws CommandError ERR_MASTER_NOT_READY if it ends early or does not respond within a minute
 */
export async function startDaemon(
  argv: readonly string[],
  config: Pick<MasterConfig, 'socket' | 'logFile'>,
  owner?: Account,
): Promise<number> {
  // Receives output that the process writes before it opens its log, and when it crashes.
  const log = path.isAbsolute(config.logFile) ? openLogFile(config.logFile, owner) : 'ignore';
  const begin = typeof log === 'number' ? fstatSync(log).size : 0;
  const child = spawn(process.execPath, [...argv], {
    detached: true,
    stdio: ['ignore', log, log],
  });
  if (typeof log === 'number') closeSync(log);
  const hasEnded = new AbortController();
  child.once('error', (error) => hasEnded.abort(error.message));
  child.once('exit', (code, signal) => hasEnded.abort(`it ended with ${code ?? signal}`));
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
    // Another master on the same socket could respond too, so the pid is compared.
    const pid = await api.status().then(
      (status) => status.pid,
      () => undefined,
    );
    if (pid !== undefined && pid === child.pid) return pid;
    await delay(pollMs, undefined, { signal: hasEnded }).catch(() => undefined);
  }
  if (!hasEnded.aborted) child.kill();
  const reason = hasEnded.aborted ? String(hasEnded.reason) : 'it did not respond within a minute';
  const lastWords = await readLastWords(logFile, begin);
  const message = `the master did not start: ${reason}${lastWords}; see ${logFile}`;
  throw new CommandError('ERR_MASTER_NOT_READY', message);
}

/** Maximum size of a process's output to read from its log, in bytes. */
const maxLastWords = 65_536;

/**
 * Returns the reason that a process logged before it ended: the last line in the form of our
 * errors.
 */
async function readLastWords(logFile: string, begin: number): Promise<string> {
  const said = await readEnd(logFile, begin).catch(() => '');
  const reason = said.split('\n').findLast((line) => line.startsWith('saltbridge: '));
  return reason === undefined ? '' : `: ${reason.slice('saltbridge: '.length)}`;
}

/** Reads at most {@link maxLastWords} bytes, because a log may be larger than memory. */
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

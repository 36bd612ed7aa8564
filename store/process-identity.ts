/**
 * Stores the identity of the process that has locked a directory, in a file in this directory.
 * Other processes can read the file even if the process that holds the lock does not respond. If
 * they run under the same account, they can then kill that process.
 */

import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { lchown, rm } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, isDiskFull, readTextIfPresent, writeFileAtomically } from '#runtime';

/** Identity of a process. It is unique until the kernel restarts. */
export interface ProcessIdentity {
  /** Process id in its own PID namespace. */
  readonly pid: number;
  /** Start time in clock ticks since the boot. It distinguishes processes with the same id. */
  readonly startTicks: number;
  /** PID namespace as shown by the link `/proc/<pid>/ns/pid`, for example `pid:[4026531836]`. */
  readonly pidNamespace: string;
  /**
   * Boot id of the kernel. The name of a PID namespace does not identify the kernel, because the
   * first PID namespace has the same name on every kernel.
   */
  readonly bootId: string;
  readonly uid: number;
}

/** Result of {@link endHolder}. */
export type EndedHolder =
  | { readonly isEnded: true; readonly pid: number }
  /**
   * `reason` completes the sentence "the process cannot be ended: …", for example `it runs under
   * another account`.
   */
  | { readonly isEnded: false; readonly reason: string };

interface HolderFile extends ProcessIdentity {
  readonly generation: number;
}

interface RunningProcess {
  /**
   * Process state. `Z` and `X` mean that the process has ended but its parent has not collected its
   * exit code.
   */
  readonly state: string;
  readonly startTicks: number;
}

/** Name of the file with the identity of the holder, in the directory of the lock. */
const fileName = 'holder.json';

/**
 * Stores the identity of this process, which holds the directory. Other processes use the identity
 * to end this process. If there is no `/proc` or the disk is full, stores nothing, because the
 * store must open in these cases, too.
 */
export async function recordOwnProcess(directory: string, generation: number): Promise<void> {
  const own = ownIdentity();
  if (own === undefined) return;
  const file: HolderFile = { generation, ...own };
  try {
    await writeFileAtomically(path.join(directory, fileName), JSON.stringify(file), 0o600);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}

/** Changes the owner of the identity file to another account. */
export async function giveRecordTo(directory: string, uid: number, gid: number): Promise<void> {
  try {
    await lchown(path.join(directory, fileName), uid, gid);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

/**
 * Removes the identity file, unless another process has taken over the directory and written its
 * own identity.
 */
export async function removeOwnRecord(directory: string): Promise<void> {
  const file = path.join(directory, fileName);
  const found = parseFile(await readTextIfPresent(file));
  const own = ownIdentity();
  if (found === undefined || own === undefined) return;
  const isOwn = found.pid === own.pid && found.startTicks === own.startTicks;
  if (isOwn && found.pidNamespace === own.pidNamespace) await rm(file, { force: true });
}

/**
 * Sends SIGKILL to the process that has locked the directory. Does so only if this is certainly the
 * process in the identity file: it runs on this kernel, in this PID namespace and under this
 * account, and its start time matches the file.
 * @param directory - real path of the directory
 * @param generation - generation of the lock that the process has
 */
export async function endHolder(directory: string, generation: number): Promise<EndedHolder> {
  const found = parseFile(await readTextIfPresent(path.join(directory, fileName)));
  const own = ownIdentity();
  if (found?.generation !== generation || own === undefined) {
    return { isEnded: false, reason: 'its process id is unknown' };
  }
  if (found.bootId !== own.bootId || found.pidNamespace !== own.pidNamespace) {
    return { isEnded: false, reason: 'it runs in another PID namespace, such as a container' };
  }
  return endProcess(found);
}

/**
 * Checks and ends the process synchronously, so that its process id cannot be reused in between.
 */
function endProcess({ pid, startTicks }: ProcessIdentity): EndedHolder {
  if (pid === process.pid) return { isEnded: false, reason: 'it is this process' };
  if (isGone({ pid, startTicks })) return { isEnded: true, pid };
  const otherAccount = { isEnded: false, reason: 'it runs under another account' } as const;
  try {
    if (statSync(`/proc/${pid}`).uid !== process.getuid?.()) return otherAccount;
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (codeOf(error) === 'EPERM') return otherAccount;
    if (codeOf(error) !== 'ESRCH' && codeOf(error) !== 'ENOENT') throw error;
  }
  return { isEnded: true, pid };
}

/** Whether it is certain that a process has ended. */
export function hasEnded({ pidNamespace, bootId, ...started }: ProcessIdentity): boolean {
  const own = ownIdentity();
  return own?.bootId === bootId && own.pidNamespace === pidNamespace && isGone(started);
}

function isGone({ pid, startTicks }: Pick<ProcessIdentity, 'pid' | 'startTicks'>): boolean {
  const running = readProcess(pid);
  return running?.startTicks !== startTicks || 'ZX'.includes(running.state);
}

/** Returns the identity of this process, or `undefined` if there is no `/proc`. */
export function ownIdentity(): ProcessIdentity | undefined {
  const running = readProcess(process.pid);
  if (running === undefined) return undefined;
  return {
    pid: process.pid,
    startTicks: running.startTicks,
    pidNamespace: readlinkSync('/proc/self/ns/pid'),
    bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    uid: process.getuid?.() ?? -1,
  };
}

/**
 * Reads `/proc/<pid>/stat`. The parser starts after the last `)`, because the program name in
 * parentheses may contain any characters.
 */
function readProcess(pid: number): RunningProcess | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = ''] = fields;
  return { state, startTicks: Number(fields[19]) };
}

function parseFile(text: string | undefined): HolderFile | undefined {
  try {
    const found = text === undefined ? undefined : JSON.parse(text);
    const numbers = [found?.generation, found?.pid, found?.startTicks];
    return numbers.every(Number.isSafeInteger) ? found : undefined;
  } catch {
    return undefined;
  }
}

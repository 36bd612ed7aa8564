/**
 * Which process holds a directory: a file beside its lock says so, which can be read while that
 * process answers nothing, and by which another process of its account may end it.
 */

import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { chown, rm } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, isDiskFull, readTextIfPresent, writeFileAtomically } from '#runtime';

/** A process, for as long as this kernel runs. */
export interface ProcessIdentity {
  /** As its PID namespace counts. */
  readonly pid: number;
  /** When it started, in clock ticks since the boot: process ids are used again. */
  readonly startTicks: number;
  /** `pid:[…]`, as `/proc/<pid>/ns/pid` has it. */
  readonly pidNamespace: string;
  /** Of the kernel: the first PID namespace has the same name on all of them. */
  readonly bootId: string;
  readonly uid: number;
}

/** What became of a holder that was to be ended. */
export type EndedHolder =
  | { readonly isEnded: true; readonly pid: number }
  /** For a person. */
  | { readonly isEnded: false; readonly reason: string };

interface HolderFile extends ProcessIdentity {
  readonly generation: number;
}

interface RunningProcess {
  /** `Z` and `X`: it has ended, and nobody has asked for its exit code yet. */
  readonly state: string;
  readonly startTicks: number;
}

/** The file beside the lock. */
const fileName = 'holder.json';

/**
 * Writes down that this process holds the directory. Does nothing where there is no `/proc`, nor on a
 * full disk, where a store must open all the same: nobody can end this process then.
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

/** Gives the file to another account. */
export async function giveRecordTo(directory: string, uid: number, gid: number): Promise<void> {
  try {
    await chown(path.join(directory, fileName), uid, gid);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

/** Removes the file, unless it names another process: one that took the directory from this one. */
export async function removeOwnRecord(directory: string): Promise<void> {
  const file = path.join(directory, fileName);
  const found = parseFile(await readTextIfPresent(file));
  const own = ownIdentity();
  if (found === undefined || own === undefined) return;
  const isOwn = found.pid === own.pid && found.startTicks === own.startTicks;
  if (isOwn && found.pidNamespace === own.pidNamespace) await rm(file, { force: true });
}

/**
 * Ends the process that holds the directory by SIGKILL, if it is certain which one that is: it must
 * be of this kernel, this PID namespace and this account, and have started when the file says.
 * @param directory - its real path
 * @param generation - of the lock that it holds
 */
export async function endHolder(directory: string, generation: number): Promise<EndedHolder> {
  const found = parseFile(await readTextIfPresent(path.join(directory, fileName)));
  const own = ownIdentity();
  if (found?.generation !== generation || own === undefined) {
    return { isEnded: false, reason: 'which process it is is not known' };
  }
  if (found.bootId !== own.bootId || found.pidNamespace !== own.pidNamespace) {
    return { isEnded: false, reason: 'it runs in another PID namespace, such as a container' };
  }
  return endProcess(found);
}

/** Between the last look at the process and its end nothing is waited for. */
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

/** Whether a process has ended, where that can be said for certain. */
export function hasEnded({ pidNamespace, bootId, ...started }: ProcessIdentity): boolean {
  const own = ownIdentity();
  return own?.bootId === bootId && own.pidNamespace === pidNamespace && isGone(started);
}

function isGone({ pid, startTicks }: Pick<ProcessIdentity, 'pid' | 'startTicks'>): boolean {
  const running = readProcess(pid);
  return running?.startTicks !== startTicks || 'ZX'.includes(running.state);
}

/** Of this process; `undefined` where there is no `/proc`. */
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

/** From `/proc/<pid>/stat`; the name of the program stands in brackets and may hold anything. */
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

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, lchown, link, lstat, open, readdir, realpath, rm } from 'node:fs/promises';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, isDiskFull, makeDirectory } from '#runtime';
import { StoreError, storeUnavailable } from './errors.ts';
import { giveRecordTo, recordOwnProcess, removeOwnRecord } from './process-identity.ts';

/** Process that has locked a directory. */
export interface LockHolder {
  /**
   * Process id in the holder's own PID namespace. In another container it may denote a different
   * process.
   */
  readonly pid: number;
  /** Host name of the machine or container in which the process runs. */
  readonly host: string;
  /** Start time of the process, in milliseconds since 1970. */
  readonly startedAt: number;
}

/** A directory that this process has locked. */
export interface DirectoryLock {
  /** Identity of this process. */
  readonly holder: LockHolder;
  /** Number of times that the directory has been locked, including this lock. */
  readonly generation: number;
  /**
   * Changes the owner of the lock files, so that an account can lock the directory after root has
   * done so.
   */
  giveTo(uid: number, gid: number): Promise<void>;
  /** Unlocks the directory. */
  release(): Promise<void>;
}

interface CurrentLock {
  readonly generation: number;
  readonly holder: Partial<LockHolder> | undefined;
}

/** State of the process that has locked a directory, as seen by other processes. */
export interface HolderState {
  /**
   * Generation of the lock: the number of times that the directory has been locked. 0 if it was
   * never locked.
   */
  readonly generation: number;
  /**
   * `none`: no process holds the directory. `answering`: the holder answered. `silent`: it did not
   * answer before the timeout, because it is stopped or busy.
   */
  readonly state: 'none' | 'answering' | 'silent';
}

/**
 * Maximum number of attempts to lock a directory. A lock that appears to be taken is checked again,
 * because it may have been released. A child process that is just starting can keep the socket of a
 * released lock open for a short time.
 */
const maxTries = 5;
const retryMs = 50;
/**
 * Timeout for the reply of the process that has locked the directory, in milliseconds. Without a
 * reply, the error message does not contain the process id.
 */
const replyTimeoutMs = 200;
const maxReplyBytes = 1024;
/**
 * Maximum length of a Unix socket address on every system that Node.js supports, in bytes,
 * including the terminator.
 */
const maxAddressBytes = 100;

const lockName = /^holder-(?<generation>[1-9][0-9]{0,14})$/;
const candidatePrefix = 'candidate-';

/**
 * Locks the directory for this process. The lock excludes every process of this kernel, including
 * those in other containers that have mounted the directory.
 *
 * The process that has the lock listens on the Unix socket `holder-<n>` with the highest n in the
 * directory. When the process ends, the kernel closes the socket. From then on, connections to it
 * are refused. The next process then creates a hard link to its own socket, under the name with n +
 * 1. Creating a link fails if the name exists, and the socket with the highest n is never removed.
 * Therefore, only one process succeeds. If a process then finds an even higher number, it was too
 * late and gives up.
 *
 * @param directory - real path of the directory
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_UNAVAILABLE
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  let seen: number | undefined;
  for (let tries = 1; ; tries += 1) {
    const found = await readCurrentLock(directory);
    const lock =
      found.holder === undefined ? await tryLock(directory, found.generation) : undefined;
    if (lock !== undefined) return lock;
    seen ??= found.generation;
    // Another process was faster and has locked the directory.
    const isTaken = found.generation > seen;
    if (isTaken || tries === maxTries) throw lockedError(directory, found.holder ?? {});
    await pause(retryMs);
  }
}

/**
 * Checks whether a process holds the directory and whether it answers. Does not lock it.
 * @param directory - real path of the directory
 * @param waitMs - timeout for the answer, in milliseconds. Default: 200
 */
export async function probeHolder(
  directory: string,
  waitMs: number = replyTimeoutMs,
): Promise<HolderState> {
  const { generation, holder } = await readCurrentLock(directory, waitMs);
  if (holder === undefined) return { generation, state: 'none' };
  return { generation, state: holder.pid === undefined ? 'silent' : 'answering' };
}

/** Returns whether a process has locked the directory. Does not lock it. */
export async function isDirectoryLocked(directory: string): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    const { holder } = await readCurrentLock(directory);
    if (holder === undefined) return false;
    if (holder.pid !== undefined || tries === maxTries) return true;
    await pause(retryMs);
  }
}

/**
 * Locks a directory whose previous holder has ended.
 * @param last - generation of the previous lock
 * @returns `undefined` if another process was faster
 * @throws StoreError ERR_STORE_FULL, ERR_STORE_UNAVAILABLE
 */
async function tryLock(directory: string, last: number): Promise<DirectoryLock | undefined> {
  const holder = ownProcess();
  const generation = last + 1;
  const candidate = path.join(directory, `${candidatePrefix}${randomUUID()}`);
  const own = nameOf(directory, generation);
  const server = createServer((connection) => reply(connection, holder)).unref();
  try {
    await listen(server, candidate);
    if (await linkTo(candidate, own)) {
      if ((await newestGeneration(directory)) === generation) {
        await removeOthers(directory, own);
        await recordOwnProcess(directory, generation);
        return {
          holder,
          generation,
          giveTo: async (uid, gid) => {
            await lchown(own, uid, gid);
            await giveRecordTo(directory, uid, gid);
          },
          // The lock is released last, because the next holder may use the files from then on.
          release: async () => {
            await removeOwnRecord(directory);
            await close(server);
          },
        };
      }
      await rm(own, { force: true });
    }
    await rm(candidate, { force: true });
  } catch (cause) {
    server.close();
    throw lockFailure(directory, cause);
  }
  await close(server);
  return undefined;
}

/**
 * Creates a hard link to a Unix socket under the name of the lock.
 * @param candidate - path of a socket on which this process listens
 * @returns `false` if the name was taken or the socket was removed
 */
async function linkTo(candidate: string, name: string): Promise<boolean> {
  try {
    await chmod(candidate, 0o600);
    await link(candidate, name);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Removes all other lock sockets in the directory. Their processes have ended, or will notice at
 * their next check that this process holds the lock.
 */
async function removeOthers(directory: string, own: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const file = path.join(directory, name);
    const isOfLock = lockName.test(name) || name.startsWith(candidatePrefix);
    if (isOfLock && file !== own) await rm(file, { force: true });
  }
}

async function newestGeneration(directory: string): Promise<number> {
  const names = await readdir(directory);
  return Math.max(0, ...names.map((name) => Number(lockName.exec(name)?.groups?.generation ?? 0)));
}

function nameOf(directory: string, generation: number): string {
  return path.join(directory, `holder-${generation}`);
}

function ownProcess(): LockHolder {
  const startedAt = Math.round(Date.now() - process.uptime() * 1000);
  return { pid: process.pid, host: hostname(), startedAt };
}

function reply(connection: Socket, holder: LockHolder): void {
  connection.on('error', () => {}).end(JSON.stringify(holder), () => connection.destroy());
}

async function listen(server: Server, file: string): Promise<void> {
  await withAddress(file, async (address) => {
    // Exclusive, because the workers of a Node.js cluster would otherwise share the socket.
    server.listen({ path: address, exclusive: true });
    await once(server, 'listening');
  });
}

async function close(server: Server): Promise<void> {
  server.close();
  await once(server, 'close');
}

/**
 * Returns the latest generation of the lock, and the identity of the process that has the lock.
 * `holder` is `undefined` if the process that last had the lock has ended.
 */
async function readCurrentLock(
  directory: string,
  waitMs: number = replyTimeoutMs,
): Promise<CurrentLock> {
  for (;;) {
    const generation = await newestGeneration(directory);
    if (generation === 0) return { generation, holder: undefined };
    const file = nameOf(directory, generation);
    const holder = await withAddress(file, (address) => askHolder(address, waitMs));
    if (holder !== undefined) return { generation, holder };
    // Another process may have locked the directory in the meantime.
    if ((await newestGeneration(directory)) === generation) return { generation, holder };
  }
}

/**
 * Asks the process that holds the directory for its identity.
 * @returns the identity; empty if the process does not answer; `undefined` if no process listens on
 * the address
 */
async function askHolder(
  address: string,
  waitMs: number,
): Promise<Partial<LockHolder> | undefined> {
  const connection = createConnection(address);
  try {
    await once(connection, 'connect');
    return await readReply(connection, waitMs);
  } catch (cause) {
    if (codeOf(cause) === 'ECONNREFUSED' || codeOf(cause) === 'ENOENT') return undefined;
    // The holder's accept queue is full, or the holder has just ended. The next attempt shows which
    // of them is the case.
    if (codeOf(cause) === 'EAGAIN' || codeOf(cause) === 'ECONNRESET') return {};
    throw lockFailure(path.dirname(address), cause);
  } finally {
    connection.destroy();
  }
}

/**
 * Reads the identity of the process that holds the lock. If the process does not answer, or sends
 * something else, the result is empty. The process still holds the lock in this case.
 */
async function readReply(connection: Socket, waitMs: number): Promise<Partial<LockHolder>> {
  connection.setTimeout(waitMs, () => connection.destroy());
  let text = '';
  try {
    for await (const chunk of connection.setEncoding('utf8')) {
      text += chunk;
      if (text.length > maxReplyBytes) return {};
    }
    const { pid, host, startedAt } = JSON.parse(text);
    if (!Number.isSafeInteger(pid) || typeof host !== 'string') return {};
    return Number.isSafeInteger(startedAt) ? { pid, host, startedAt } : {};
  } catch {
    return {};
  }
}

/**
 * Calls `use` with an address of the Unix socket `file`. The address is short enough for the
 * operating system, even if the path of the file is too long.
 */
async function withAddress<T>(file: string, use: (address: string) => Promise<T>): Promise<T> {
  if (Buffer.byteLength(file) <= maxAddressBytes) return await use(file);
  const directory = await open(path.dirname(file));
  try {
    return await use(`/proc/self/fd/${directory.fd}/${path.basename(file)}`);
  } finally {
    await directory.close();
  }
}

function lockFailure(directory: string, cause: unknown): StoreError {
  if (isDiskFull(cause)) {
    const message = `the disk is full: cannot create the lock of ${directory}`;
    return new StoreError('ERR_STORE_FULL', message, { cause });
  }
  return storeUnavailable(`cannot lock ${directory}`, cause);
}

function lockedError(directory: string, { pid, host, startedAt }: Partial<LockHolder>): StoreError {
  const process = pid === undefined ? 'another process' : `process ${pid} on ${host}`;
  const since =
    startedAt === undefined ? '' : `, which started ${new Date(startedAt).toISOString()}`;
  return new StoreError(
    'ERR_STORE_LOCKED',
    `${directory} is in use by ${process}${since}, or this process has opened it twice; ` +
      'stop the other process (a running saltbridge master?) or use its local socket',
  );
}

const sticky = 0o1000;
const writableByOthers = 0o002;
const writableByGroupOrOthers = 0o022;

/**
 * Creates the directory with mode 0700 if it is missing, and returns its real path.
 * @throws StoreError ERR_STORE_PERMISSIONS if others can write to it or replace it
 */
export async function preparePrivateDirectory(directory: string): Promise<string> {
  await makeDirectory(directory, 0o700);
  const real = await realpath(directory);
  if (((await lstat(real)).mode & writableByGroupOrOthers) !== 0)
    throw writableByOthersError(real, real);
  for (let parent = path.dirname(real); ; parent = path.dirname(parent)) {
    const { mode } = await lstat(parent);
    // In a sticky directory such as /tmp, others can add names but cannot replace ours.
    if ((mode & writableByOthers) !== 0 && (mode & sticky) === 0)
      throw writableByOthersError(real, parent);
    if (parent === path.dirname(parent)) break;
  }
  await chmod(real, 0o700);
  return real;
}

/**
 * Creates the file if it is missing, readable by its owner only (0600) from the start.
 * @param bytes - minimum size in bytes. A shorter file is filled with zeros, because a
 * memory-mapped file crashes the process if the disk has no space for one of its pages
 * @throws StoreError ERR_STORE_FULL
 */
export async function preparePrivateFile(file: string, bytes = 0): Promise<void> {
  const handle = await open(file, 'a', 0o600);
  try {
    await handle.chmod(0o600);
    const { size } = await handle.stat();
    if (size < bytes) await handle.writeFile(Buffer.alloc(bytes - size));
  } catch (cause) {
    if (isDiskFull(cause)) {
      throw new StoreError('ERR_STORE_FULL', `the disk is full: cannot write ${file}`, { cause });
    }
    throw cause;
  } finally {
    await handle.close();
  }
}

/**
 * Tests for free space by writing `bytes` bytes to a file and removing it.
 * @throws StoreError ERR_STORE_FULL
 */
export async function probeFreeSpace(directory: string, bytes: number): Promise<void> {
  const file = path.join(directory, 'room');
  try {
    await preparePrivateFile(file, bytes);
  } finally {
    await rm(file, { force: true });
  }
}

function writableByOthersError(directory: string, culprit: string): StoreError {
  return new StoreError(
    'ERR_STORE_PERMISSIONS',
    `${directory} cannot hold a store: other users can write to ${culprit}; run: chmod go-w ${culprit}`,
  );
}

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, chown, link, lstat, open, readdir, realpath, rm } from 'node:fs/promises';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, isDiskFull, makeDirectory } from '#runtime';
import { StoreError, storeUnavailable } from './errors.ts';
import { giveRecordTo, recordOwnProcess, removeOwnRecord } from './process-identity.ts';

/** The process that has a directory. */
export interface LockHolder {
  /** As the process itself knows it: another container may count its processes anew. */
  readonly pid: number;
  /** Name of its machine or container. */
  readonly host: string;
  /** When the process started, milliseconds since 1970. */
  readonly startedAt: number;
}

/** A directory that was taken for this process. */
export interface DirectoryLock {
  /** Of this process. */
  readonly holder: LockHolder;
  /** Counts how often the directory was taken: higher than that of every holder before. */
  readonly generation: number;
  /** Makes the files of the lock an account's, which could not take the directory after root otherwise. */
  giveTo(uid: number, gid: number): Promise<void>;
  /** Gives the directory back. */
  release(): Promise<void>;
}

interface CurrentLock {
  readonly generation: number;
  readonly holder: Partial<LockHolder> | undefined;
}

/** What can be seen of a directory's holder from outside. */
export interface HolderState {
  /** Of the lock; 0: the directory was never held. */
  readonly generation: number;
  /**
   * `none`: nobody holds it. `answering`: the holder's main loop answered. `silent`: it did not in
   * 200 ms; it is stopped, or busy.
   */
  readonly state: 'none' | 'answering' | 'silent';
}

/**
 * A program that was being started when a lock was given back has a copy of it for a moment, until
 * it runs: what is taken is looked at again.
 */
const maxTries = 5;
const retryMs = 50;
/** A holder whose process is stopped or busy is named without its process id. */
const replyTimeoutMs = 200;
const maxReplyBytes = 1024;
/** Longest address of a Unix socket on every system that Node.js runs on, with its end. */
const maxAddressBytes = 100;

const lockName = /^holder-(?<generation>[1-9][0-9]{0,14})$/;
const candidatePrefix = 'candidate-';

/**
 * Takes the directory for this process, against every process of this kernel, also those of other
 * containers that have it mounted.
 *
 * The holder listens on the Unix socket `holder-<n>` in it, with the highest n there is. The kernel
 * ends the socket with its process, however that ends: whoever is refused by the highest one links
 * a socket of its own, which listens already, to n + 1. Only one process can, as names are made
 * exclusively, and the highest is never removed: so whoever finds a higher one behind its own was
 * late, and gives way.
 * @param directory - its real path
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
    // Another process was quicker, and has it for good.
    const isTaken = found.generation > seen;
    if (isTaken || tries === maxTries) throw lockedError(directory, found.holder ?? {});
    await pause(retryMs);
  }
}

/**
 * Looks whether a process holds the directory, and whether it answers. Takes nothing itself.
 * @param directory - its real path
 * @param waitMs - for its answer. Default 200
 */
export async function probeHolder(
  directory: string,
  waitMs: number = replyTimeoutMs,
): Promise<HolderState> {
  const { generation, holder } = await readCurrentLock(directory, waitMs);
  if (holder === undefined) return { generation, state: 'none' };
  return { generation, state: holder.pid === undefined ? 'silent' : 'answering' };
}

/** Whether a process has taken the directory. Takes nothing itself. */
export async function isDirectoryLocked(directory: string): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    const { holder } = await readCurrentLock(directory);
    if (holder === undefined) return false;
    if (holder.pid !== undefined || tries === maxTries) return true;
    await pause(retryMs);
  }
}

/**
 * Takes a directory that nobody has.
 * @param last - the generation whose process has ended
 * @returns `undefined` if another process was quicker
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
            await chown(own, uid, gid);
            await giveRecordTo(directory, uid, gid);
          },
          // The lock last: what is in the directory then is the next holder's.
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

/** Gives the candidate a name. @returns whether nobody had that name, nor removed the candidate */
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

/** Sockets of processes that have ended, or that find another holder as soon as they look. */
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
    // Exclusive: the workers of a cluster would share the socket otherwise.
    server.listen({ path: address, exclusive: true });
    await once(server, 'listening');
  });
}

async function close(server: Server): Promise<void> {
  server.close();
  await once(server, 'close');
}

/** The highest generation there is, and what is known of its process; `undefined` if it has ended. */
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
    // Another one may have taken the directory meanwhile: that one counts.
    if ((await newestGeneration(directory)) === generation) return { generation, holder };
  }
}

/** @returns `undefined` only if no process listens there */
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
    // It has accepted no connection for long, or has just ended: the next try shows which.
    if (codeOf(cause) === 'EAGAIN' || codeOf(cause) === 'ECONNRESET') return {};
    throw lockFailure(path.dirname(address), cause);
  } finally {
    connection.destroy();
  }
}

/** Whoever answers nothing, or something else, is a holder all the same. */
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

/** Calls `use` with an address of the file that is short enough, however deep its directory lies. */
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
    const message = `the disk is full: no room for the lock of ${directory}`;
    return new StoreError('ERR_STORE_FULL', message, { cause });
  }
  return storeUnavailable(`${directory} cannot be locked`, cause);
}

function lockedError(directory: string, { pid, host, startedAt }: Partial<LockHolder>): StoreError {
  const process = pid === undefined ? 'another process' : `process ${pid} on ${host}`;
  const since =
    startedAt === undefined ? '' : `, which started ${new Date(startedAt).toISOString()}`;
  return new StoreError(
    'ERR_STORE_LOCKED',
    `${directory} is in use by ${process}${since}, or opened twice by this one; ` +
      'stop that process (saltbridge master?), or ask it through its local socket',
  );
}

const sticky = 0o1000;
const writableByOthers = 0o002;
const writableByGroupOrOthers = 0o022;

/**
 * Makes the directory if it is missing, private to its owner (0700), and gives its real path.
 * @throws StoreError ERR_STORE_PERMISSIONS when others could write to it, or replace it
 */
export async function preparePrivateDirectory(directory: string): Promise<string> {
  await makeDirectory(directory, 0o700);
  const real = await realpath(directory);
  if (((await lstat(real)).mode & writableByGroupOrOthers) !== 0)
    throw writableByOthersError(real, real);
  for (let parent = path.dirname(real); ; parent = path.dirname(parent)) {
    const { mode } = await lstat(parent);
    // In a sticky directory, such as /tmp, others can add names but not replace ours.
    if ((mode & writableByOthers) !== 0 && (mode & sticky) === 0)
      throw writableByOthersError(real, parent);
    if (parent === path.dirname(parent)) break;
  }
  await chmod(real, 0o700);
  return real;
}

/**
 * Makes the file if it is missing, readable by its owner alone (0600) from its first moment.
 * @param bytes - a shorter one is filled with zeros to this size: a file that is written through
 * memory ends the process when the disk has no room for a page of it
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
      throw new StoreError('ERR_STORE_FULL', `the disk is full: no room for ${file}`, { cause });
    }
    throw cause;
  } finally {
    await handle.close();
  }
}

/**
 * Writes so many bytes and takes them away again.
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
    `${directory} cannot hold a store: others may write to ${culprit}; chmod go-w ${culprit}`,
  );
}

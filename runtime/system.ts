import { createHash } from 'node:crypto';
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';
import { getSystemErrorMap } from 'node:util';

/**
 * What the operating system says in an error, for people: the file, if the error names one, and the
 * reason: `/var/lib/x: read-only file system (EROFS)`.
 * @returns `undefined` for an error that is not the operating system's
 */
export function describeSystemError(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') {
    return undefined;
  }
  const [name, reason] = getSystemErrorMap().get(error.errno) ?? [];
  if (name === undefined) return undefined;
  const file = 'path' in error && typeof error.path === 'string' ? `${error.path}: ` : '';
  return `${file}${reason} (${name})`;
}

/**
 * Does `work` on a file. The system's errors name the file from then on: Node leaves it out where
 * the file is open already.
 */
export async function withFileInErrors<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && 'errno' in error && !('path' in error)) {
      Object.assign(error, { path: file });
    }
    throw error;
  }
}

/**
 * Makes a directory and those above it that are missing. Node's own `recursive` never ends where a
 * file system refuses a name with ENOENT, as /proc does, and reports ENOENT for a read-only one.
 * @returns the directories that were made, the highest first
 * @throws the system's error for the first directory that cannot be made
 */
export async function makeDirectory(directory: string, mode: number): Promise<readonly string[]> {
  const made: string[] = [];
  for (const each of directoriesOnTheWay(directory)) {
    try {
      await mkdir(each, mode);
      made.push(each);
    } catch (error) {
      const found = await stat(each).catch(() => undefined);
      if (!found?.isDirectory()) throw error;
    }
  }
  return made;
}

/** {@link makeDirectory} for callers that cannot wait: it blocks while the disk does. */
export function makeDirectorySync(directory: string, mode: number): readonly string[] {
  const made: string[] = [];
  for (const each of directoriesOnTheWay(directory)) {
    try {
      mkdirSync(each, mode);
      made.push(each);
    } catch (error) {
      const found = statSync(each, { throwIfNoEntry: false });
      if (!found?.isDirectory()) throw error;
    }
  }
  return made;
}

/** The directory and those above it, from the root on. */
function directoriesOnTheWay(directory: string): string[] {
  const absolute = path.resolve(directory);
  const parent = path.dirname(absolute);
  return parent === absolute ? [absolute] : [...directoriesOnTheWay(parent), absolute];
}

/** What the system calls an error (`ENOENT`, …), or one of ours (`ERR_…`); `undefined`: nothing. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Whether the disk, or the account's share of it, is full. */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** Whether there is no such file or directory. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}

const processUsers = new Map<number, string | null>();

/** The name of the account that the process runs as, looked up once; null: it has none. */
export function processUser(): string | null {
  const uid = process.getuid?.() ?? -1;
  const known = processUsers.get(uid);
  if (known !== undefined) return known;
  const name = lookUpUser();
  processUsers.set(uid, name);
  return name;
}

function lookUpUser(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}

const sliceBytes = 262_144;

/** The digest of a file, read in slices so that others are answered meanwhile. */
export async function hashFile(file: string, algorithm: string): Promise<Buffer> {
  const handle = await open(file);
  try {
    const hash = createHash(algorithm);
    const slice = Buffer.allocUnsafe(sliceBytes);
    for (;;) {
      const { bytesRead } = await handle.read(slice, 0, sliceBytes);
      if (bytesRead === 0) return hash.digest();
      hash.update(slice.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}

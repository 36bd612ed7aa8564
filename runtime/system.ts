import { createHash } from 'node:crypto';
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';
import { getSystemErrorMap } from 'node:util';

/**
 * Returns the operating system's description of an error, with the file if the error names one:
 * `/var/lib/x: read-only file system (EROFS)`.
 * @returns `undefined` for an error that does not come from the operating system
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
 * Performs `work` on a file, and adds the file's path to the message of system errors. Node.js
 * omits the path in errors of open files.
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
 * Creates a directory and its missing parents. Does not use the option `recursive` of Node.js, for
 * two reasons. With this option, the call never returns if a file system such as /proc rejects a
 * name with ENOENT. It also reports ENOENT for a read-only file system.
 * @returns the created directories, from the top down
 * @throws the system error for the first directory that cannot be created
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

/** Creates directories like {@link makeDirectory}, but synchronously. */
export function makeDirectorySync(directory: string, mode: number): void {
  for (const each of directoriesOnTheWay(directory)) {
    try {
      mkdirSync(each, mode);
    } catch (error) {
      const found = statSync(each, { throwIfNoEntry: false });
      if (!found?.isDirectory()) throw error;
    }
  }
}

/** Returns the directory and its parents, starting from the root. */
export function directoriesOnTheWay(directory: string): string[] {
  const absolute = path.resolve(directory);
  const parent = path.dirname(absolute);
  return parent === absolute ? [absolute] : [...directoriesOnTheWay(parent), absolute];
}

/**
 * Returns the code of an error: a system error code (`ENOENT`, …) or a saltbridge code (`ERR_…`).
 * `undefined` if the error has no code.
 */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Whether the error means that the disk or a quota is full. */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** Whether the error means that a file or directory does not exist. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}

/**
 * Waits for an operation on a file or directory.
 * @returns `undefined` if the file or directory does not exist
 * @throws all other errors of the operation
 */
export async function ifPresent<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (isMissing(error) || codeOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

const processUsers = new Map<number, string | null>();

/**
 * Returns the name of the account that runs the process, or `null` if its user id has no name. The
 * result is cached.
 */
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

/**
 * Returns the digest of a file. The file is read in slices, so that other work can run in between.
 */
export async function hashFile(file: string, algorithm: string): Promise<Buffer> {
  const handle = await open(file);
  try {
    const hash = createHash(algorithm);
    const { size } = await handle.stat();
    // Most files are small, and a buffer of the whole slice costs more than their digest. Files of
    // the kernel have the size 0.
    const slice = Buffer.allocUnsafe(size === 0 ? sliceBytes : Math.min(sliceBytes, size));
    for (;;) {
      const { bytesRead } = await handle.read(slice, 0, slice.length);
      if (bytesRead === 0) return hash.digest();
      hash.update(slice.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}

import { chmod, lstat, open, realpath, rm } from 'node:fs/promises';
import path from 'node:path';
import { makeDirectory } from '../runtime/index.ts';
import { codeOf, StoreError } from './errors.ts';

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
  if (((await lstat(real)).mode & writableByGroupOrOthers) !== 0) throw writable(real, real);
  for (let parent = path.dirname(real); ; parent = path.dirname(parent)) {
    const { mode } = await lstat(parent);
    // In a sticky directory, such as /tmp, others can add names but not replace ours.
    if ((mode & writableByOthers) !== 0 && (mode & sticky) === 0) throw writable(real, parent);
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
    if (codeOf(cause) === 'ENOSPC' || codeOf(cause) === 'EDQUOT') {
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
export async function proveRoom(directory: string, bytes: number): Promise<void> {
  const file = path.join(directory, 'room');
  try {
    await preparePrivateFile(file, bytes);
  } finally {
    await rm(file, { force: true });
  }
}

function writable(directory: string, culprit: string): StoreError {
  return new StoreError(
    'ERR_STORE_PERMISSIONS',
    `${directory} cannot hold a store: others may write to ${culprit}; chmod go-w ${culprit}`,
  );
}

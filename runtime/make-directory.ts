import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

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

import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from '../system-error.ts';

/** What stands for "no such file", whatever a path looked like; also what is there of another kind. */
const absent: ReadonlySet<string> = new Set([
  'EACCES',
  'EEXIST',
  'EINVAL',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
]);

/** Whether a failure of the file system means that there is nothing to be had at a path. */
function isAbsence(error: unknown): boolean {
  return absent.has(codeOf(error) ?? '');
}

/** What `look` finds; `undefined` where there is nothing. Other failures stay failures. */
export async function ifPresent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Whether `file` is `directory` or below it; both absolute and without links. */
export function isBelow(directory: string, file: string): boolean {
  return file === directory || file.startsWith(directory === '/' ? '/' : `${directory}/`);
}

/** Directories that no file is served from, whichever root they lie below [THREATS G-08, M-10]. */
export class HiddenDirectories {
  readonly #directories: readonly string[];

  private constructor(directories: readonly string[]) {
    this.#directories = directories;
  }

  /** @param directories absolute; those that do not exist yet count by their name */
  static async open(directories: readonly string[]): Promise<HiddenDirectories> {
    return new HiddenDirectories(await Promise.all(directories.map(realPlace)));
  }

  /** @param file absolute, without links */
  contain(file: string): boolean {
    return this.#directories.some((directory) => isBelow(directory, file));
  }
}

/** Without links, as far as it exists. */
async function realPlace(place: string): Promise<string> {
  const real = await ifPresent(realpath(place));
  if (real !== undefined) return real;
  const parent = path.dirname(place);
  return parent === place ? place : path.join(await realPlace(parent), path.basename(place));
}

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

/** Determines the release of one of Salt's programs. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Returns the version that the program prints, for example `3006.16`. */
export async function versionOf(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ['--version']);
  return /\d+(\.\d+)*/.exec(stdout)?.[0] ?? 'unknown';
}

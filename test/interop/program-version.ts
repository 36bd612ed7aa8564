/** Which release a program of Salt's is. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** `3006.16`, as the program says itself. */
export async function versionOf(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ['--version']);
  return /\d+(\.\d+)*/.exec(stdout)?.[0] ?? 'unknown';
}

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/**
 * Writes files into a temporary directory of the test.
 * @param files - content by relative path
 * @returns the path of the directory
 */
export function configDirectory(t: ExecutionContext, files: Record<string, string>): string {
  const directory = temporaryDirectory(t);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return directory;
}

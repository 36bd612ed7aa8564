import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Writes files with these relative paths to a new directory of the test, and returns its path. */
export function configDirectory(t: ExecutionContext, files: Record<string, string>): string {
  const directory = temporaryDirectory(t);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return directory;
}

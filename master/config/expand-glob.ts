import { lstat, readdir } from 'node:fs/promises';
import path from 'node:path';
import { compileGlob } from '../../minion-protocol/index.ts';

/**
 * The files that an absolute path with globs stands for, sorted. As in Python's `glob`, a name
 * that begins with a dot is only found by a pattern that does. Nothing there: an empty list.
 */
export async function expandGlob(pattern: string): Promise<string[]> {
  const { root } = path.parse(pattern);
  let found = [root];
  for (const segment of pattern.slice(root.length).split(path.sep)) {
    if (segment === '') continue;
    const next = await Promise.all(found.map((directory) => expandSegment(directory, segment)));
    found = next.flat();
  }
  return found.sort();
}

async function expandSegment(directory: string, segment: string): Promise<string[]> {
  if (!/[*?[]/.test(segment)) {
    const file = path.join(directory, segment);
    return (await exists(file)) ? [file] : [];
  }
  const matches = compileGlob(segment);
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => matches(name) && (!name.startsWith('.') || segment.startsWith('.')))
    .map((name) => path.join(directory, name));
}

async function exists(file: string): Promise<boolean> {
  return await lstat(file).then(
    () => true,
    () => false,
  );
}

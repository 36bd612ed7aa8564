import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';

/**
 * Returns the files of a path. For a directory, these are its files `*.yaml` and `*.yml`, sorted,
 * without hidden ones.
 * @throws errors of the operating system if the path does not exist or cannot be read
 */
export async function listYamlFiles(place: string): Promise<string[]> {
  if (!(await stat(place)).isDirectory()) return [place];
  const names = await readdir(place);
  const files = names.filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
  return files.map((name) => path.join(place, name));
}

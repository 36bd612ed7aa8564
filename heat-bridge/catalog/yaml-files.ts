import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';

/**
 * Returns the file itself, or the `*.yaml` and `*.yml` files of a directory, sorted and without
 * hidden ones.
 * @throws errors of the operating system if `place` does not exist or cannot be read
 */
export async function listYamlFiles(place: string): Promise<string[]> {
  if (!(await stat(place)).isDirectory()) return [place];
  const names = await readdir(place);
  const files = names.filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
  return files.map((name) => path.join(place, name));
}

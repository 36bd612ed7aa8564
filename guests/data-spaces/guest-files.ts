/**
 * Files for guests: Salt modules, a program for machines with a shell, and a Ruby file for Puppet
 * and Chef. Minions get them from the file server. `saltutil.sync_all` and highstates load the
 * modules.
 */

import { readFile } from 'node:fs/promises';
import { createMemoryFiles, type MemoryFiles } from '#master';

/**
 * Paths of the files for guests. The paths are the same below `clients/guests` of this package and
 * in the file server.
 */
const paths = [
  '_modules/saltbridge_data.py',
  '_modules/saltbridge_peers.py',
  '_sdb/saltbridge_data.py',
  'saltbridge/saltbridge-data',
  'saltbridge/saltbridge.rb',
] as const;

/** Files for guests, by path. */
export type GuestFiles = Readonly<Record<(typeof paths)[number], string>>;

/**
 * Reads the files from the package.
 * @throws Error if the package is incomplete
 */
export async function readGuestFiles(): Promise<GuestFiles> {
  const folder = new URL('../../clients/guests/', import.meta.url);
  const read = (path: string): Promise<string> => readFile(new URL(path, folder), 'utf8');
  const texts = await Promise.all(paths.map(async (path) => [path, await read(path)] as const));
  // The cast is safe, because every path has been read.
  return Object.fromEntries(texts) as GuestFiles;
}

/** Returns the files for the file server, in the environment `base`. */
export function serveGuestFiles(files: GuestFiles): MemoryFiles {
  return createMemoryFiles({ base: files });
}

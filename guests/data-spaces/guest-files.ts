/**
 * Files for guests: modules of their minions, a program for machines with a shell, and a file of Ruby
 * for Puppet and Chef. Minions get them from the file server: modules by `saltutil.sync_all` or before
 * a highstate.
 */

import { readFile } from 'node:fs/promises';
import { createMemoryFiles, type MemoryFiles } from '#master';

/** Below `clients/guests`, as minions see them. */
const paths = [
  '_modules/saltbridge_data.py',
  '_modules/saltbridge_peers.py',
  '_sdb/saltbridge_data.py',
  'saltbridge/saltbridge-data',
  'saltbridge/saltbridge.rb',
] as const;

/** Files of guests by their paths. */
export type GuestFiles = Readonly<Record<(typeof paths)[number], string>>;

/** From the package. @throws Error where it was not installed whole */
export async function readGuestFiles(): Promise<GuestFiles> {
  const folder = new URL('../../clients/guests/', import.meta.url);
  const read = (path: string): Promise<string> => readFile(new URL(path, folder), 'utf8');
  const texts = await Promise.all(paths.map(async (path) => [path, await read(path)] as const));
  // Each of the paths is there.
  return Object.fromEntries(texts) as GuestFiles;
}

/** For the file server, in the environment `base`. */
export function serveGuestFiles(files: GuestFiles): MemoryFiles {
  return createMemoryFiles({ base: files });
}

/** Opens the file server of a configuration. */

import type { Logger } from 'pino';
import type { FixedConfig, MasterConfig } from '#config';
import type { FileServerBackend } from '#master';
import { isBelow } from './disk-files.ts';
import { expandRoot, openRoots } from './roots.ts';

/** Sources of a master's files. */
export interface FileServerOptions {
  /**
   * Backends in order of precedence, or functions that open them when the master starts. The master
   * closes the backends. To serve `fileRoots`, pass the function {@link openFileRoots}.
   */
  readonly backends: readonly (
    | FileServerBackend
    | ((config: FixedConfig, logger: Logger) => Promise<FileServerBackend>)
  )[];
}

/**
 * Opens the `file_roots` of a configuration. Keys, the store, pushed files, copies of repositories
 * and pillar files are never served, even if a root contains them.
 */
export async function openFileRoots(
  config: FixedConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const hidden = [...hiddenDirectories(config), ...(await pillarDirectories(config))];
  return openRoots(config, { hidden, ...(logger === undefined ? {} : { logger }) });
}

/** Returns the directories of keys, the store, pushed files and copies of repositories. */
export function hiddenDirectories({
  pkiDir,
  stateDir,
  cachedir,
}: Pick<MasterConfig, 'pkiDir' | 'stateDir' | 'cachedir'>): readonly string[] {
  return [pkiDir, stateDir, `${cachedir}/minions`, `${cachedir}/git`];
}

/**
 * Returns the directories of `pillar_roots` and `ext_pillar` that must be hidden from minions. A
 * directory that is a file root, or contains one, is not hidden.
 */
async function pillarDirectories({
  pillarRoots,
  extPillar,
  fileRoots,
}: Pick<MasterConfig, 'pillarRoots' | 'extPillar' | 'fileRoots'>): Promise<string[]> {
  const [roots, files] = await Promise.all([placesOf(pillarRoots), placesOf(fileRoots)]);
  const ext = extPillar.flatMap((entry) => ('directory' in entry ? [entry.directory] : []));
  return [...roots, ...ext].filter((place) => !files.some((file) => isBelow(place, file)));
}

async function placesOf(roots: Readonly<Record<string, readonly string[]>>): Promise<string[]> {
  const places = await Promise.all(Object.values(roots).flat().map(expandRoot));
  return places.flat().map((place) => place.split('/__env__')[0] ?? place);
}

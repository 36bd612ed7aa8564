/** Opens the file server of a configuration. */

import type { Logger } from 'pino';
import type { FixedConfig, MasterConfig } from '#config';
import type { FileServerBackend } from '#master';
import { isBelow } from './disk-files.ts';
import { expandRoot, openRoots } from './roots.ts';

/** Where a master's files come from. */
export interface FileServerOptions {
  /**
   * Asked in this order; they belong to the master from its start on, which closes them. A function
   * is called at the start: with {@link openFileRoots} among them, `fileRoots` are served as well.
   */
  readonly backends: readonly (
    | FileServerBackend
    | ((config: FixedConfig, logger: Logger) => Promise<FileServerBackend>)
  )[];
}

/**
 * The `file_roots` of a configuration. Never served, whatever root they lie in: keys, the store,
 * what minions pushed, copies of repositories, and the files of pillar.
 */
export async function openFileRoots(
  config: FixedConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const hidden = [...hiddenDirectories(config), ...(await pillarDirectories(config))];
  return openRoots(config, { hidden, ...(logger === undefined ? {} : { logger }) });
}

/** Keys, the store, what minions pushed, and copies of repositories. */
export function hiddenDirectories({
  pkiDir,
  stateDir,
  cachedir,
}: Pick<MasterConfig, 'pkiDir' | 'stateDir' | 'cachedir'>): readonly string[] {
  return [pkiDir, stateDir, `${cachedir}/minions`, `${cachedir}/git`];
}

/**
 * The directories of `pillar_roots` and `ext_pillar` that are none of `file_roots` and have none
 * below them: who keeps pillar among the states does not hand it to every minion.
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

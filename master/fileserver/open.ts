/** The file server of a master, from its configuration. */
import type { Logger } from 'pino';
import type { MasterConfig } from '../config/options.ts';
import type { FileServerBackend } from './backend.ts';
import { isBelow } from './confinement.ts';
import { FileServer } from './file-server.ts';
import { expandRoot, openRoots } from './roots.ts';

/** Where a master's files come from. */
export interface FileServerOptions {
  /**
   * Asked in this order; they belong to the master from its start on, which closes them. With
   * {@link openFileRoots} among them, `file_roots` are served as well.
   */
  readonly backends: readonly FileServerBackend[];
}

/** @param options default: the `file_roots` of the configuration */
export async function openFileServer(
  config: MasterConfig,
  options: FileServerOptions | undefined,
  logger: Logger,
): Promise<FileServer> {
  if (options !== undefined) return new FileServer(options.backends);
  return new FileServer([await openFileRoots(config, logger)]);
}

/**
 * The `file_roots` of a configuration. Never served, whatever root they lie in: keys, the store,
 * what minions pushed, and the files of pillar.
 */
export async function openFileRoots(
  config: MasterConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const hidden = [...hiddenDirectories(config), ...(await pillarDirectories(config))];
  return openRoots(config, { hidden, ...(logger === undefined ? {} : { logger }) });
}

/** Keys, the store, and what minions pushed. */
export function hiddenDirectories({
  pkiDir,
  stateDir,
  cachedir,
}: Pick<MasterConfig, 'pkiDir' | 'stateDir' | 'cachedir'>): readonly string[] {
  return [pkiDir, stateDir, `${cachedir}/minions`];
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

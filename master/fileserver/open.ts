/** The file server of a master, from its configuration. */
import type { Logger } from 'pino';
import type { MasterConfig } from '../config/options.ts';
import type { FileServerBackend } from './backend.ts';
import { FileServer } from './file-server.ts';
import { openRoots } from './roots.ts';

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
 * and what minions pushed.
 */
export function openFileRoots(config: MasterConfig, logger?: Logger): Promise<FileServerBackend> {
  const hidden = hiddenDirectories(config);
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

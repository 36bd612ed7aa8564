/**
 * Sources of files and pillar for programs that embed the master. Their code is loaded at the first
 * use.
 */

import type { Logger } from 'pino';
import { type FixedConfig, pillarAddressProblem } from '#config';
import { type ExtPillar, type FileServerBackend, MasterError } from '#master';
import type { ExtPillarFilesOptions } from './pillar/ext-pillar-files.ts';
import type { ExtPillarHttpOptions } from './pillar/ext-pillar-http.ts';

/**
 * Opens the `file_roots` of a configuration. Keys, the store, pushed files, copies of repositories
 * and pillar files are never served, even if a root contains them.
 */
export async function openFileRoots(
  config: FixedConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const { openFileRoots: open } = await import('./file-trees/open-file-roots.ts');
  return open(config, logger);
}

/**
 * Opens external pillar from one file per minion. The files are plain data and are not rendered. A
 * minion without a file gets nothing from this source. Links that leave the directory are not
 * followed.
 */
export async function extPillarFiles(options: ExtPillarFilesOptions): Promise<ExtPillar> {
  const { extPillarFiles: open } = await import('./pillar/ext-pillar-files.ts');
  return open(options);
}

/**
 * Opens external pillar from a web service. Status 404 or 204 means that the service has no pillar
 * for the minion. Every other status except 200, including redirections, is an error.
 * @throws MasterError ERR_ARGS if the address is not allowed
 */
export function extPillarHttp(options: ExtPillarHttpOptions): ExtPillar {
  const problem = pillarAddressProblem(options);
  if (problem !== undefined) throw new MasterError('ERR_ARGS', `url: ${problem}`);
  const { host } = new URL(options.url.replaceAll('{id}', 'id'));
  let source: ExtPillar | undefined;
  return {
    name: `http ${host}`,
    provide: async (request) => {
      source ??= (await import('./pillar/ext-pillar-http.ts')).extPillarHttp(options);
      return source.provide(request);
    },
  };
}

/** Sources of files and pillar for programs. Each loads its code when it is first used. */

import type { Logger } from 'pino';
import { type FixedConfig, pillarAddressProblem } from '#config';
import { type ExtPillar, type FileServerBackend, MasterError } from '#master';
import type { ExtPillarFilesOptions } from './pillar/ext-pillar-files.ts';
import type { ExtPillarHttpOptions } from './pillar/ext-pillar-http.ts';

/**
 * Opens the `file_roots` of a configuration. Keys, the store, files that minions pushed, copies of
 * repositories and the files of pillar are never served, whatever root contains them.
 */
export async function openFileRoots(
  config: FixedConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const { openFileRoots: open } = await import('./file-trees/open-file-roots.ts');
  return open(config, logger);
}

/**
 * Opens pillar of files, one for each minion. They are data: nothing in them is rendered. A minion
 * without a file gets nothing from it, and links that leave the directory lead nowhere.
 */
export async function extPillarFiles(options: ExtPillarFilesOptions): Promise<ExtPillar> {
  const { extPillarFiles: open } = await import('./pillar/ext-pillar-files.ts');
  return open(options);
}

/**
 * Pillar from a service. 404 and 204 mean that the minion has none there; every other answer but
 * 200, a redirection among them, is a failure.
 * @throws MasterError ERR_ARGS for an address that may not be asked
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

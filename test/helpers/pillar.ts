/** Creates pillar files on the disk, and compiles the pillar of a minion. */

import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { createSilentLogger, noFiles } from '#master';
import type { OwnPillar, PillarConfig, PillarDeps } from '#salt/pillar/own-pillar.ts';
import { openPillar } from '#salt/pillar/pillar.ts';
import { PillarSources } from '#salt/render/pillar-sources.ts';
import { type FileTree, layOut } from './file-tree.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** An open pillar and the directory of its files. */
export interface OpenedPillar {
  readonly pillar: OwnPillar;
  readonly directory: string;
  /** Changes the configuration, like a reload. */
  readonly configure: (changes: Partial<PillarConfig>) => void;
  /** Closes the pillar and opens it again, like a restart of the master. */
  readonly reopen: (changes?: Partial<PillarConfig>) => Promise<OwnPillar>;
}

/**
 * Creates the files and opens the pillar.
 * @param options - `pillarRoots` are paths below the directory of the tree; default: its `base`
 * @param openSurroundings - called at each opening; default: nothing is cached on the disk
 */
export async function openTree(
  t: ExecutionContext,
  tree: FileTree,
  options: Partial<PillarConfig> = {},
  openSurroundings: () => Promise<Partial<PillarDeps>> = async () => ({}),
): Promise<OpenedPillar> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const pillarRoots = Object.fromEntries(
    Object.entries(options.pillarRoots ?? { base: ['base'] }).map(([env, places]) => [
      env,
      places.map((place) => path.join(directory, place)),
    ]),
  );
  const config: PillarConfig = {
    ...resolveMasterConfig({ rootDir: directory }),
    stateDir: path.join(directory, 'state'),
    masterOptions: { id: 'master1' },
    ...options,
    pillarRoots,
  };
  const open = async (): Promise<OwnPillar> => {
    const surroundings = { log: createSilentLogger(), now: Date.now };
    return openPillar(config, { ...surroundings, ...(await openSurroundings()) });
  };
  let pillar = await open();
  t.teardown(() => pillar.close());
  const configure = (changes: Partial<PillarConfig>): void => {
    Object.assign(config, changes);
    pillar.configure(config);
  };
  return {
    pillar,
    directory,
    configure,
    reopen: async (changes = {}) => {
      await pillar.close();
      configure(changes);
      pillar = await open();
      return pillar;
    },
  };
}

/** Sources without any files. */
export const noSources: PillarSources = new PillarSources({
  backend: {
    name: 'none',
    envs: () => [],
    find: async () => undefined,
    lists: async () => noFiles,
    close: async () => {},
  },
  trimBlocks: false,
  lstripBlocks: false,
});

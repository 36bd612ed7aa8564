/** Pillar files on the disk, and what a minion gets of them. */

import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { createSilentLogger, noFiles } from '#master';
import type { OwnPillar, PillarConfig, PillarDeps } from '#salt/pillar/own-pillar.ts';
import { openPillar } from '#salt/pillar/pillar.ts';
import { PillarSources } from '#salt/render/pillar-sources.ts';
import { type FileTree, layOut } from './file-tree.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** A pillar that was opened, and where its files lie. */
export interface OpenedPillar {
  readonly pillar: OwnPillar;
  readonly directory: string;
  /** As a reload would. */
  readonly configure: (changes: Partial<PillarConfig>) => void;
  /** Closes it, and opens it as a master that starts again would. */
  readonly reopen: (changes?: Partial<PillarConfig>) => Promise<OwnPillar>;
}

/**
 * @param options `pillarRoots` are below the directory of the tree. Default: its `base`
 * @param openSurroundings asked at each opening. Default: nothing is kept on a disk
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
    pillar.useNodegroups(config.nodegroups);
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

/** Where there are no files. */
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

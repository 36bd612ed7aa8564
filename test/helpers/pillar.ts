/** Pillar files on the disk, and what a minion gets of them. */
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { resolveMasterConfig } from '../../master/config/resolve.ts';
import { createSilentLogger } from '../../master/log.ts';
import { type OwnPillar, openPillar, type PillarConfig } from '../../master/pillar/open.ts';
import { type FileTree, layOut } from './file-tree.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** A pillar that was opened, and where its files lie. */
export interface OpenedPillar {
  readonly pillar: OwnPillar;
  readonly directory: string;
  /** As a reload would. */
  readonly configure: (changes: Partial<PillarConfig>) => void;
}

/** @param options `pillarRoots` are below the directory of the tree. Default: its `base` */
export async function openTree(
  t: ExecutionContext,
  tree: FileTree,
  options: Partial<PillarConfig> = {},
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
  const pillar = await openPillar(config, { log: createSilentLogger(), now: Date.now });
  t.teardown(() => pillar.close());
  return { pillar, directory, configure: (changes) => void Object.assign(config, changes) };
}

/** Opens the sources of the option `ext_pillar`. */

import type { ExtPillarEntry, GitPillarEntry } from '#config';
import type { ExtPillar } from '#master';
import { type ExtPillarLayer, layerOf } from './ext-pillar.ts';
import { openExtPillarFiles } from './ext-pillar-files.ts';
import { openExtPillarHttp } from './ext-pillar-http.ts';
import type { TextReader } from './pillar-text.ts';

/** How the remotes of an entry `git` are opened. */
export type GitPillarOpener = (entry: GitPillarEntry) => Promise<readonly ExtPillarLayer[]>;

/** Opens them in their order; each has the name of its module. */
export async function openExtPillars(
  entries: readonly ExtPillarEntry[],
  reader: TextReader,
  openGit: GitPillarOpener,
): Promise<ExtPillarLayer[]> {
  const layers = await Promise.all(
    entries.map(async (entry) => {
      if (entry.module === 'git') return openGit(entry);
      const source = await openEntry(entry, reader);
      return [{ ...layerOf(source), name: entry.module }];
    }),
  );
  return layers.flat();
}

async function openEntry(
  entry: Exclude<ExtPillarEntry, GitPillarEntry>,
  reader: TextReader,
): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return openExtPillarFiles(entry, reader);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return openExtPillarHttp(
    { ...options, timeoutMs: timeout * 1000, allowsPlainHttp: allowPlainHttp },
    reader,
  );
}

/** Opens the sources of the option `ext_pillar`. */

import {
  type ExtPillarEntry,
  type GitPillarEntry,
  type UnservedPillarEntry,
  unservedReason,
} from '#config';
import { type ExtPillar, MasterError } from '#master';
import { type ExtPillarLayer, layerOf } from './ext-pillar.ts';
import { openExtPillarFiles } from './ext-pillar-files.ts';
import { openExtPillarHttp } from './ext-pillar-http.ts';
import type { TextReader } from './pillar-text.ts';

/** How the remotes of an entry `git` are opened. */
type GitPillarOpener = (entry: GitPillarEntry) => Promise<readonly ExtPillarLayer[]>;

/** What the sources are opened with. */
export interface ExtPillarOpening {
  readonly reader: TextReader;
  readonly openGit: GitPillarOpener;
  /** `left_out_ext_pillar`. */
  readonly leftOut: readonly string[];
}

/** Opens them in their order; each has the name of its module. */
export async function openExtPillars(
  entries: readonly ExtPillarEntry[],
  { reader, openGit, leftOut }: ExtPillarOpening,
): Promise<ExtPillarLayer[]> {
  const layers = await Promise.all(
    entries.map(async (entry) => {
      if (entry.module === 'git') return openGit(entry);
      if (entry.module === 'unserved') return leftOut.includes(entry.name) ? [] : [refusal(entry)];
      const source = await openEntry(entry, reader);
      return [{ ...layerOf(source), name: entry.module }];
    }),
  );
  return layers.flat();
}

/** A source that fails, so that no minion applies states to a pillar that lacks something. */
function refusal({ name }: UnservedPillarEntry): ExtPillarLayer {
  const message =
    `ext_pillar: ${name} ${unservedReason(name)}. State runs stop until the module is removed ` +
    'from ext_pillar or named in left_out_ext_pillar below saltbridge; see docs/pillar.md';
  return {
    name,
    answer: async () => {
      throw new MasterError('ERR_NOT_SERVED', message);
    },
  };
}

async function openEntry(
  entry: Exclude<ExtPillarEntry, GitPillarEntry | UnservedPillarEntry>,
  reader: TextReader,
): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return openExtPillarFiles(entry, reader);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return openExtPillarHttp(
    { ...options, timeoutMs: timeout * 1000, allowsPlainHttp: allowPlainHttp },
    reader,
  );
}
